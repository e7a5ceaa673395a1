package doctor

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Result is the result of a check.
type Result string

// Results of a check.
const (
	OK      Result = "OK"
	Problem Result = "PROBLEM"
	Unknown Result = "UNKNOWN"
)

// Check is a check with its result.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Message describes the result, Fix the next step.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Report is the machine-readable output.
type Report struct {
	cli.Header `json:",inline"`
	Checks     []Check `json:"checks"`
}

// requestTimeout limits each request, so that the checks end if the API server does not respond.
const requestTimeout = 15 * time.Second

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Checking the installation")
	checks, err := RunChecks(ctx, env, o.namespace)
	done()
	if err != nil {
		return err
	}
	return printReport(o.output, checks, env.Terminal(out))
}

// RunChecks runs all checks. The operator is expected in operatorNamespace.
func RunChecks(ctx context.Context, env *cli.Env, operatorNamespace string) ([]Check, error) {
	callerNamespace, err := env.Namespace()
	if err != nil {
		return nil, err
	}
	config, err := env.Config()
	if err != nil {
		return nil, err
	}
	if config.Timeout == 0 {
		config.Timeout = requestTimeout
	}
	e, err := newChecker(config, env, operatorNamespace, callerNamespace)
	if err != nil {
		return nil, err
	}
	err = e.runAll(ctx)
	return e.checks, err
}

// printReport prints the report and returns an error if a check failed or could not be completed.
func printReport(o cli.Output, checks []Check, out cli.Terminal) error {
	if o.IsMachineReadable() {
		if err := o.Print(out, Report{Header: cli.NewHeader("DoctorReport"), Checks: checks}); err != nil {
			return err
		}
	} else {
		Print(checks, o.Format == cli.FormatWide, out)
	}
	count := map[Result]int{}
	for _, c := range checks {
		count[c.Result]++
	}
	switch {
	case count[Problem] > 0:
		return cli.ErrNotReady
	case count[Unknown] > 0:
		return fmt.Errorf("%d of %d checks could not be completed; request more permissions, or use another user with --as",
			count[Unknown], len(checks))
	}
	return nil
}

// Print prints checks as a table.
func Print(checks []Check, wide bool, out cli.Terminal) {
	table := cli.Table{Columns: []string{"CHECK", "RESULT", "MESSAGE"}}
	if wide {
		table.Columns = []string{"CHECK", "RESULT", "FIX", "MESSAGE"}
	}
	for _, c := range checks {
		row := []string{c.Name, string(c.Result)}
		switch {
		case wide:
			row = append(row, cli.OrDash(c.Fix), c.Message)
		case c.Fix != "":
			row = append(row, c.Message+"; "+c.Fix)
		default:
			row = append(row, c.Message)
		}
		table.Rows = append(table.Rows, row)
	}
	table.Colorize = func(column int, text string) string {
		if column != 1 {
			return text
		}
		return out.Colorize(map[string]string{string(OK): cli.ColorGood, string(Problem): cli.ColorBad}[text], text)
	}
	table.Print(out)
}

// checker checks one installation.
type checker struct {
	env     *cli.Env
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// operatorNamespace is the namespace of the operator, callerNamespace the current namespace.
	operatorNamespace, callerNamespace string
	operatorInfo                       operatorInfo
	checks                             []Check
}

// operatorInfo is the configuration of the operator.
type operatorInfo struct {
	// serviceAccount is the name of its ServiceAccount. Empty: no operator was found.
	serviceAccount string
	// namespaces are the watched namespaces. Empty: all namespaces.
	namespaces []string
	// version is its version label or image tag. Empty: unknown.
	version string
	// leaseNamespace is the namespace of its Lease. Empty: leader election is disabled.
	leaseNamespace string
}

func newChecker(config *rest.Config, env *cli.Env, operatorNamespace, callerNamespace string) (*checker, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; use another one with --kubeconfig or --context", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &checker{env: env, kube: kube, dynamic: dynamicClient, operatorNamespace: operatorNamespace, callerNamespace: callerNamespace}, nil
}

// runAll runs all checks. Checks that others depend on come first.
func (e *checker) runAll(ctx context.Context) error {
	if err := e.checkAPIServer(); err != nil {
		return err
	}
	e.checkCRDs(ctx)
	e.checkDiscoveredKinds(ctx)
	e.checkOperator(ctx)
	e.checkNamespace()
	e.checkLeader(ctx)
	e.checkCenter(ctx)
	e.checkPolicies(ctx)
	e.checkOperatorPermissions(ctx)
	e.checkCallerPermissions(ctx)
	return nil
}

func (e *checker) add(name string, result Result, message, fix string) {
	e.checks = append(e.checks, Check{Name: name, Result: result, Message: message, Fix: fix})
}
