package journeys_test

import (
	"bytes"
	"io"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/rollback"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func init() { stories["rollback: somebody else edits meanwhile"] = editedMeanwhile }

// asked answers a question after something has happened.
type asked struct {
	meanwhile func()
	io.Reader
}

func (a *asked) Read(p []byte) (int, error) {
	if a.meanwhile != nil {
		a.meanwhile()
		a.meanwhile = nil
	}
	return a.Reader.Read(p)
}

func editedMeanwhile(w *world) {
	w.create("components: [{name: web, service: {image: \"shop/web:1\", replicas: 1}}]")
	w.becomesReady()
	w.apply("components: [{name: web, service: {image: \"shop/web:2\", replicas: 1}}]")
	w.becomesReady()
	setReplicas := func(s *appsapi.AppStack) { s.Spec.Components[0].Service.Replicas = new(int32(2)) }
	cases := []struct {
		answer    string
		meanwhile func()
		want      string
	}{
		{"n\n", nil, "not confirmed, so nothing was changed; answer y, or give --yes"},
		{"", nil, "not confirmed, so nothing was changed; answer y, or give --yes"},
		{"y\n", func() { stage.Edit(w.World, w.named(), setReplicas) },
			"AppStack " + w.NS + "/shop was changed by somebody else meanwhile, so nothing was written; look at it, and run the same again"},
		{"y\n", func() { w.Touch(w.named()) }, ""}, // labels, as the status is, are no edit of the spec
	}
	for _, tc := range cases {
		flags := genericclioptions.NewConfigFlags(false)
		flags.KubeConfig, flags.Namespace = &w.kubeconfig, &w.NS
		env := &cli.Env{Getter: flags, Version: "v1.2.3", Now: time.Now, Person: func(io.Reader) bool { return true }}
		var out, errOut bytes.Buffer
		cmd := rollback.Command(env)
		cmd.SetArgs([]string{"shop", "--to-revision", "1"})
		cmd.SetIn(&asked{tc.meanwhile, strings.NewReader(tc.answer)})
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(w.Context())
		w.Expect(errOut.String()).To(HaveSuffix("Give AppStack " + w.NS + "/shop this spec? [y/N] "))
		if tc.want != "" {
			w.Expect(err).To(MatchError(tc.want))
			w.Expect(w.stack().Spec.Components[0].Service.Image).To(Equal("shop/web:2"))
			continue
		}
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.stack().Spec.Components[0].Service.Image).To(Equal("shop/web:1"))
		w.Expect(w.stack().Labels).To(HaveKey("example.com/touched"))
	}
}
