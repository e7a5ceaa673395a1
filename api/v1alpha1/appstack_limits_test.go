package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// testSchedule checks that a schedule that the CRD accepts is also valid for a CronJob.
func testSchedule(t *testing.T, config *rest.Config, stacks dynamic.ResourceInterface, namespace string) {
	const shape = "spec.components[0].job.schedule: schedule must be a cron expression with five fields, for example '0 3 * * *' for every day at 03:00, or one of @hourly, @daily, @weekly, @monthly and @yearly"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		schedule             string
		rejected             bool
		outOfRange           bool
		rejectedByKubernetes bool // only Kubernetes rejects it: the rules of the CRD do not check names and the order of ranges
	}{
		"every day":          {schedule: "0 3 * * *"},
		"every five minutes": {schedule: "*/5 * * * *"},
		"lists and ranges":   {schedule: "0,30 9-17/2 1,15 1-6 1-5"},
		"names":              {schedule: "0 3 * JAN-mar Mon,FRI"},
		"question marks":     {schedule: "0 3 ? * ?"},
		"several spaces":     {schedule: "0   3  * * *"},
		"hourly":             {schedule: "@hourly"},
		"daily":              {schedule: "@daily"},
		"midnight":           {schedule: "@midnight"},
		"weekly":             {schedule: "@weekly"},
		"monthly":            {schedule: "@monthly"},
		"yearly":             {schedule: "@yearly"},
		"annually":           {schedule: "@annually"},
		"last values":        {schedule: "059-59/90,00 23 31 12 6"},
		"minute 61":          {schedule: "61 3 * * *", outOfRange: true},
		"minute 100 in list": {schedule: "0,100 3 * * *", outOfRange: true},
		"hour 24 in a range": {schedule: "0 8-24 * * *", outOfRange: true},
		"day 0":              {schedule: "0 3 0 * *", outOfRange: true},
		"day 32":             {schedule: "0 3 32 * *", outOfRange: true},
		"month 0":            {schedule: "0 3 1 0 *", outOfRange: true},
		"month 13":           {schedule: "0 3 1 13 *", outOfRange: true},
		"day of the week 7":  {schedule: "0 3 * * 1,7", outOfRange: true},
		"reversed range":     {schedule: "9-3 3 * * *", rejectedByKubernetes: true},
		"unknown month":      {schedule: "0 3 1 foo *", rejectedByKubernetes: true},
		"empty":              {schedule: "", rejected: true},
		"four fields":        {schedule: "0 3 * *", rejected: true},
		"with seconds":       {schedule: "0 0 3 * * *", rejected: true},
		"words":              {schedule: "every night", rejected: true},
		"five words":         {schedule: "every night at three sharp", rejected: true},
		"unknown macro":      {schedule: "@nightly", rejected: true},
		"an interval":        {schedule: "@every 1h", rejected: true},
		"CRON_TZ":            {schedule: "CRON_TZ=Europe/Berlin 0 3 * * *", rejected: true},
		"TZ and four fields": {schedule: "TZ=UTC 3 * * *", rejected: true},
		"leading space":      {schedule: " 0 3 * * *", rejected: true},
		"line of a crontab":  {schedule: "0 3 * * * /bin/backup", rejected: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := fmt.Sprintf(`{components: [{name: backup, job: {image: backup, schedule: %q}}]}`, tc.schedule)
			_, err := stacks.Create(t.Context(), appStack(t, "shop", spec), dryRun)
			if tc.rejected {
				wantRejected(t, err, shape)
				return
			}
			if tc.outOfRange {
				wantRejected(t, err, fmt.Sprintf("spec.components[0].job.schedule: schedule %q has a value that is out of range: minute 0-59, "+
					"hour 0-23, day of the month 1-31, month 1-12 or JAN-DEC, day of the week 0-6 or SUN-SAT", tc.schedule))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.BatchV1().CronJobs(namespace).Create(t.Context(), cronJob(tc.schedule), dryRun)
			if late := err != nil; late != tc.rejectedByKubernetes {
				t.Errorf("the CRD accepts it, Kubernetes returned %v", err)
			}
		})
	}
}

func cronJob(schedule string) *batchv1.CronJob {
	job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "backup"}, Spec: batchv1.CronJobSpec{Schedule: schedule}}
	job.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "app", Image: "backup"}},
	}
	return job
}

// testStackAtLimits checks that the CEL rules stay within the cost limit per object when every list and
// name has its maximum length.
func testStackAtLimits(t *testing.T, stacks dynamic.ResourceInterface) {
	full := fullStack()
	o := unstructuredStack(t, full)
	start := time.Now()
	stored, err := stacks.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a full stack has %d bytes of JSON and was created in %v", size(t, o), time.Since(start).Round(time.Millisecond))

	// An update also evaluates the transition rules.
	for i := range full.Spec.Components {
		full.Spec.Components[i].Service.Image = "shop/changed:2"
	}
	o = unstructuredStack(t, full)
	o.SetResourceVersion(stored.GetResourceVersion())
	start = time.Now()
	if _, err = stacks.Update(t.Context(), o, metav1.UpdateOptions{FieldValidation: strict}); err != nil {
		t.Fatal(err)
	}
	t.Logf("all its components were changed in %v", time.Since(start).Round(time.Millisecond))

	last := len(full.Spec.Components) - 1
	full.Name = "rejected"
	full.Spec.Components[last].DependsOn[15] = "nothing"
	full.Spec.Components[last].Bindings[15].Component = "nothing"
	full.Spec.Components[last].RenamedFrom = full.Spec.Components[0].Name
	_, err = stacks.Create(t.Context(), unstructuredStack(t, full), dryRun)
	name := full.Spec.Components[last].Name
	wantRejected(t, err, msgInvalidBinding(name+" is bound to nothing"), msgUnknownDependency(name+" depends on nothing"),
		msgRenamedFromExists(name+" is renamed from "+full.Spec.Components[0].Name))
}

// fullStack returns a stack with the maximum number and length of components, names, ports and annotations.
func fullStack() *appsapi.AppStack {
	stack := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("s", 63)}}
	stack.SetGroupVersionKind(appsapi.GroupVersion.WithKind("AppStack"))
	name := func(i int) string { return fmt.Sprintf("%s-%02d", strings.Repeat("x", 37), i%64) }
	for i := range 64 {
		service := &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: strings.Repeat("i", 1024)}}}
		service.Service.Annotations = map[string]appsapi.AnnotationValue{}
		for j := range 32 {
			service.Service.Annotations[fmt.Sprintf("example.com/%s-%d", strings.Repeat("a", 40), j)] = "true"
		}
		component := appsapi.Component{
			Name: name(i), ResourceName: fmt.Sprintf("%s-%02d", strings.Repeat("r", 60), i),
			RenamedFrom: fmt.Sprintf("%s-%02d", strings.Repeat("o", 37), i), Service: service,
		}
		for j := range 16 {
			service.Ports = append(service.Ports, appsapi.Port{Name: fmt.Sprintf("%s-%02d", strings.Repeat("p", 12), j), Port: int32(65000 + j)})
			component.DependsOn = append(component.DependsOn, name(i+1+j))
			component.Bindings = append(component.Bindings, appsapi.Binding{Component: name(i + 1 + j), EnvPrefix: fmt.Sprintf("%s_%02d", strings.Repeat("E", 37), j)})
		}
		stack.Spec.Components = append(stack.Spec.Components, component)
	}
	return stack
}

// testStackStatus checks that a full status is accepted, that only the status subresource changes it, and
// the printed columns.
func testStackStatus(t *testing.T, config *rest.Config, stacks dynamic.ResourceInterface) {
	const full = `
observedGeneration: 3
conditions: [{type: Ready, status: "False", reason: WaitingForDependency, message: Component "web" waits for "api", observedGeneration: 3, lastTransitionTime: "2026-01-02T03:04:05Z"}]
causes: [{code: ImageNotFound, message: the image does not exist, object: {kind: Pod, name: shop-api-1}, since: "2026-01-02T03:04:05Z"}]
components:
- {name: migrate, type: Job, resourceName: shop-migrate, health: Healthy, ready: 0, desired: 0}
- {name: api, type: Service, resourceName: shop-api, health: Degraded, reason: ImageNotFound, message: the image does not exist, ready: 0, desired: 2}
- {name: web, type: Service, health: Waiting, reason: WaitingForDependency, message: waits for "api", ready: 0, desired: 1}
componentsReady: 1/3
currentRevision: "7"
healthyRevision: "6"`

	spec := stackOf(migrate, api)
	stored := create(t, stacks, appStack(t, "shop", spec))
	stored.Object["status"] = parse(t, full)
	stored.Object["spec"] = parse(t, stackOf(worker))
	stored, err := stacks.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"spec": parse(t, spec), "status": parse(t, full)}, map[string]any{"spec": stored.Object["spec"], "status": stored.Object["status"]}); diff != "" {
		t.Errorf("object after a status update (-want +got):\n%s", diff)
	}

	stored.Object["status"] = parse(t, `{observedGeneration: 4}`)
	stored, err = stacks.Update(t.Context(), stored, metav1.UpdateOptions{FieldValidation: strict})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, full), stored.Object["status"]); diff != "" {
		t.Errorf("status after a spec update (-want +got):\n%s", diff)
	}

	want := map[string]any{"Ready": "False", "Reason": "WaitingForDependency", "Components": "1/3", "Message": `Component "web" waits for "api"`, "Revision": "7"}
	if diff := cmp.Diff(want, columns(t, config, stored)); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}

	stored.Object["status"] = parse(t, `{components: [{name: api, type: Pod, health: Fine}, {name: api, type: Job, health: Healthy}]}`)
	_, err = stacks.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{})
	wantRejected(t, err,
		`status.components[0].health: Unsupported value: "Fine": supported values: "Healthy", "Progressing", "Degraded", "Suspended", "Waiting", "Unknown"`,
		`status.components[0].type: Unsupported value: "Pod": supported values: "Service", "Stateful", "Job", "Database"`,
		`status.components[1]: Duplicate value: {"name":"api"}`)
}

// columns returns the columns that `kubectl get -o wide` prints for an AppStack, without name and age.
func columns(t *testing.T, config *rest.Config, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	content, err := client.RESTClient().Get().
		AbsPath("/apis/apps.holdfast.dev/v1alpha1/namespaces", o.GetNamespace(), "appstacks", o.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(content, &table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("got %d rows in %s", len(table.Rows), content)
	}
	cells := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Name != "Name" && column.Name != "Age" {
			cells[column.Name] = table.Rows[0].Cells[i]
		}
	}
	return cells
}

func unstructuredStack(t *testing.T, stack *appsapi.AppStack) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func size(t *testing.T, o *unstructured.Unstructured) int {
	t.Helper()
	content, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return len(content)
}
