package reconcile

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestLogLinesNameTheApplicationOnce(t *testing.T) {
	var line string
	newLogger := newLogConstructor(funcr.NewJSON(func(text string) { line = text }, funcr.Options{}), "AppService")
	for want, req := range map[string]*reconcile.Request{
		`{"logger":"","level":0,"msg":"x","controller":"appservice"}`: nil,
		`{"logger":"","level":0,"msg":"x","AppService":{"name":"web","namespace":"shop"}}`: {
			NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}},
	} {
		if newLogger(req).Info("x"); line != want {
			t.Errorf("got %s, want %s", line, want)
		}
	}
}

// maxWebhookTimeout is the longest that the API server waits for an admission webhook.
const maxWebhookTimeout = 30 * time.Second

func TestReconcileHasDeadline(t *testing.T) {
	options := controllerOptions(Options{Workers: 1}, newBackoff(time.Minute))
	if got := options.ReconciliationTimeout; got <= 2*maxWebhookTimeout || got > 5*time.Minute {
		t.Errorf("the reconcile timeout is %s, want one that slow webhooks do not exceed", got)
	}
}
