package reconcile

import (
	"testing"
	"time"
)

// maxWebhookTimeout is the longest that the API server waits for an admission webhook.
const maxWebhookTimeout = 30 * time.Second

func TestReconcileHasDeadline(t *testing.T) {
	options := controllerOptions(Options{Workers: 1}, newBackoff(time.Minute))
	if got := options.ReconciliationTimeout; got <= 2*maxWebhookTimeout || got > 5*time.Minute {
		t.Errorf("the reconcile timeout is %s, want one that slow webhooks do not exceed", got)
	}
}
