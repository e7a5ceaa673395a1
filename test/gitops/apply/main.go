// Command apply applies manifests in the same way as a delivery tool, with the library of that tool: Flux, or Argo CD
// with client-side or server-side apply. It prints the result for each object, and for Argo CD whether it is in sync.
// It is a module of its own, because the libraries need other versions of the Kubernetes modules.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/fluxcd/pkg/ssa"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "path of the kubeconfig")
	tool       = flag.String("tool", "", "flux, argocd or argocd-server-side")
	file       = flag.String("f", "", "manifest")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatalln("apply:", err)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	content, err := os.Open(*file)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	objects, err := ssautils.ReadObjects(content)
	if err != nil {
		return err
	}
	switch *tool {
	case "flux":
		return applyLikeFlux(ctx, config, objects)
	case "argocd":
		return applyLikeArgoCD(ctx, config, objects, false)
	case "argocd-server-side":
		return applyLikeArgoCD(ctx, config, objects, true)
	}
	return fmt.Errorf("unknown tool %q", *tool)
}

// applyLikeFlux applies objects with the options of kustomize-controller. It takes over the fields of all managers
// whose names start with kubectl.
func applyLikeFlux(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	options := ssa.DefaultApplyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	for _, object := range objects {
		change, err := manager.Apply(ctx, object, options)
		if err != nil {
			return err
		}
		fmt.Println(change.Subject, change.Action)
	}
	return nil
}

func applyLikeArgoCD(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured, serverSide bool) error {
	ctl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	_, parser, err := ctl.LoadOpenAPISchema(config)
	if err != nil {
		return err
	}
	resources, cleanup, err := ctl.ManageResources(config)
	if err != nil {
		return err
	}
	defer cleanup()
	dryRunner, cleanup, err := ctl.ManageServerSideDiffDryRuns(config)
	if err != nil {
		return err
	}
	defer cleanup()
	for _, object := range objects {
		live, err := ctl.GetResource(ctx, config, object.GroupVersionKind(), object.GetName(), object.GetNamespace())
		if err == nil {
			result, err := diff.Diff(object, live, diff.WithGVKParser(parser), diff.WithServerSideDiff(serverSide),
				diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(dryRunner)), diff.WithManager("argocd-controller"), diff.WithNormalizer(diff.GetNoopNormalizer()), diff.WithLogr(logr.Discard()))
			if err != nil {
				return err
			}
			if result.Modified {
				fmt.Printf("%s OutOfSync\nlive: %s\nafter: %s\n", object.GetName(), withoutManagers(result.NormalizedLive), withoutManagers(result.PredictedLive))
			}
		}
		// Argo CD applies every object of a sync, also those that are in sync.
		if _, err := resources.ApplyResource(ctx, object, util.DryRunNone, false, true, serverSide, "argocd-controller"); err != nil {
			return err
		}
	}
	return nil
}

// withoutManagers returns an object without managedFields, for messages.
func withoutManagers(object []byte) string {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(object); err != nil {
		return string(object)
	}
	u.SetManagedFields(nil)
	text, err := u.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}
