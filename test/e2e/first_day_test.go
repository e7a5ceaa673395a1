package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// firstDay is a user on the first day, with a namespace for one item of the checklist docs/dev/first-day.md.
type firstDay struct {
	*testing.T
	*WithT
	ns string
}

// firstDayItems are the items of the checklist that need no human judgment. Each runs the commands of a user.
var firstDayItems = map[string]func(firstDay){
	"WrongStorageClass":     wrongStorageClass,
	"RestartThenApply":      restartThenApply,
	"RotateThenWait":        rotateThenWait,
	"RevertedRename":        revertedRename,
	"RevertedRenameUnbound": revertedRenameWithoutBinding,

	"HealthyForeignObjects": healthyForeignObjects,
	"ForeignChildName":      foreignChildName,
	"CrashingDependency":    crashingDependency,
	"WrongPort":             wrongPort,
	"InvalidComponent":      invalidComponent,
	"MissingReplica":        missingReplica,
	"NoMetricsServer":       noMetricsServer,
	"MissingIngressClass":   missingIngressClass,
	"Suspended":             suspendedApplication,
	"FixNamesField":         fixNamesField,

	"Drift":             driftIsReported,
	"EventsNameTrigger": eventsNameTheirTrigger,

	"Viewer":          viewerPlans,
	"OneKindOnly":     userOfOneKind,
	"PlanMistakes":    planMistakes,
	"NoCluster":       noCluster,
	"RunJobAgain":     runJobAgain,
	"VersionsAgree":   versionsAgree,
	"SamplesAreValid": samplesAreValid,
	"RejectedEdits":   rejectedEdits,
}

// TestFirstDay repeats what went wrong when people used Holdfast for the first time.
func TestFirstDay(t *testing.T) {
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("takes minutes: make first-day runs it")
	}
	requireInstalled(t)
	t.Run("items", func(t *testing.T) {
		for name, run := range firstDayItems {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := firstDay{T: t, WithT: NewWithT(t), ns: "day-" + strings.ToLower(name)}
				kubectl(t, "create", "namespace", d.ns)
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(kubectl(t, "-n", d.ns, "get", "holdfast,deployments,statefulsets,persistentvolumeclaims,pods,events", "-o", "wide"))
					}
					kubectl(t, "delete", "namespace", d.ns, "--wait=false")
				})
				run(d)
			})
		}
	})
	t.Run("OperatorIsDown", operatorIsDown) // affects all others
}

// apply applies a manifest in the namespace of the item.
func (d firstDay) apply(manifest string) {
	d.Helper()
	apply(d.T, d.ns, manifest)
}

// applyStack applies the stack shop with these components, in YAML flow style.
func (d firstDay) applyStack(components ...string) {
	d.Helper()
	d.apply(stackYAML(components...))
}

func stackYAML(components ...string) string {
	return fmt.Sprintf("{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}, spec: {components: [%s]}}",
		strings.Join(components, ", "))
}

// webComponent is a component that serves on port 80; extra is YAML of the component.
func webComponent(name, extra string) string {
	return fmt.Sprintf(`{name: %s%s, service: {image: "localhost/web:1", args: ["--healthy"], ports: [{port: 80, targetPort: 8080}]}}`, name, extra)
}

// plugin runs a command that must end with this exit code.
func (d firstDay) plugin(code int, args ...string) string {
	d.Helper()
	out, got := runPlugin(d.T, d.ns, "", args...)
	d.Expect(got).To(Equal(code), "%s: %s", args, out)
	return out
}

// waitReady waits until the stack shop is ready.
func (d firstDay) waitReady() {
	d.Helper()
	d.plugin(0, "wait", "shop", "--timeout=2m")
}

// eventually waits until the output of a command matches all patterns.
func (d firstDay) eventually(timeout string, args []string, patterns ...string) {
	d.Helper()
	out := ""
	d.Eventually(func() string {
		out, _ = runPlugin(d.T, d.ns, "", args...)
		for _, p := range patterns {
			if ok, err := MatchRegexp(p).Match(out); err != nil || !ok {
				return p
			}
		}
		return ""
	}, timeout, "500ms").Should(BeEmpty(), func() string { return fmt.Sprintf("%s printed\n%s", args, out) })
	d.Log("\n" + out)
}

// kubectl runs kubectl in the namespace of the item.
func (d firstDay) kubectl(args ...string) string {
	d.Helper()
	return kubectl(d.T, append([]string{"-n", d.ns}, args...)...)
}

// pods returns the UIDs of the pods of the stack shop.
func (d firstDay) pods() string {
	d.Helper()
	return d.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=shop", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.uid}")
}
