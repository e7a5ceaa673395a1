package engine

import (
	"testing"
	"time"
)

// maxWebhookTimeout is the longest that the API server waits for an admission webhook.
const maxWebhookTimeout = 30 * time.Second

func TestReconcileHasDeadline(t *testing.T) {
	options := controllerOptions(Options{}.withDefaults(), newBackoff(time.Minute))
	if got := options.ReconciliationTimeout; got <= 2*maxWebhookTimeout || got > 5*time.Minute {
		t.Errorf("a reconcile may take %s, want a deadline that slow webhooks do not reach", got)
	}
}
