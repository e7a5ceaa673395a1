package verbs_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/rollback"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// hookReader runs a function before it answers.
type hookReader struct {
	beforeRead func()
	io.Reader
}

func (a *hookReader) Read(p []byte) (int, error) {
	if a.beforeRead != nil {
		a.beforeRead()
		a.beforeRead = nil
	}
	return a.Reader.Read(p)
}

func TestRollbackConcurrentEdit(t *testing.T) {
	w := newStory(t)
	w.create("components: [{name: web, service: {image: \"shop/web:1\", replicas: 1}}]")
	w.waitReady()
	w.apply("components: [{name: web, service: {image: \"shop/web:2\", replicas: 1}}]")
	w.waitReady()
	setReplicas := func(s *appsapi.AppStack) { s.Spec.Components[0].Service.Replicas = new(int32(2)) }
	cases := []struct {
		answer       string
		beforeAnswer func()
		want         string
	}{
		{"n\n", nil, "not confirmed, nothing was changed; answer y or use --yes"},
		{"", nil, "not confirmed, nothing was changed; answer y or use --yes"},
		{"y\n", func() { harness.Edit(w.World, w.stackKey(), setReplicas) },
			"AppStack " + w.NS + "/shop was changed by another client in the meantime, so nothing was written; check it, then retry"},
		{"y\n", func() { w.Touch(w.stackKey()) }, ""}, // labels and status are not part of the spec
	}
	for _, tc := range cases {
		flags := genericclioptions.NewConfigFlags(false)
		flags.KubeConfig, flags.Namespace = &w.kubeconfig, &w.NS
		env := &cli.Env{Getter: flags, Version: "v1.2.3", Now: time.Now, Interactive: func(io.Reader) bool { return true }}
		var out, errOut bytes.Buffer
		cmd := rollback.Command(env)
		cmd.SetArgs([]string{"shop", "--to-revision", "1"})
		cmd.SetIn(&hookReader{tc.beforeAnswer, strings.NewReader(tc.answer)})
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(w.Context())
		w.Expect(errOut.String()).To(HaveSuffix("Roll back AppStack " + w.NS + "/shop? [y/N] "))
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
