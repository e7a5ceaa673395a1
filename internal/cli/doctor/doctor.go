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

// Result is what a check found.
type Result string

// What a check found.
const (
	OK      Result = "OK"
	Problem Result = "PROBLEM"
	Unknown Result = "UNKNOWN"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Message is one sentence, and Fix what to do.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Report is the answer for programs.
type Report struct {
	cli.Header `json:",inline"`
	Checks     []Check `json:"checks"`
}

// requestTimeout is how long one question may take: an API server that does not answer is an answer.
const requestTimeout = 15 * time.Second

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Looking at the installation")
	checks, err := RunChecks(ctx, env, o.namespace)
	done()
	if err != nil {
		return err
	}
	return printReport(o.output, checks, env.Terminal(out))
}

// RunChecks makes every check of an installation whose operator runs in a namespace.
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

// printReport prints the report and says how it ended.
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
		return fmt.Errorf("%d of %d checks could not be made; ask somebody with more rights to run this, or use --as", count[Unknown], len(checks))
	}
	return nil
}

// Print shows checks to people.
func Print(checks []Check, wide bool, out cli.Terminal) {
	table := cli.Table{Columns: []string{"CHECK", "RESULT", "WHAT"}}
	if wide {
		table.Columns = []string{"CHECK", "RESULT", "FIX", "WHAT"}
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

// checker looks at one installation.
type checker struct {
	env     *cli.Env
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	// operatorNamespace is the namespace of the operator, and caller that of the caller.
	operatorNamespace, callerNamespace string
	operatorInfo                       operatorInfo
	checks                             []Check
}

// operatorInfo is what is known about the operator.
type operatorInfo struct {
	// serviceAccount is the name of its ServiceAccount; empty when there is no operator.
	serviceAccount string
	// namespaces that it looks after; none means all.
	namespaces []string
	// version is that of its image or label; empty when neither says it.
	version string
	// leaseNamespace is where its Lease is; empty when it elects no leader.
	leaseNamespace string
}

func newChecker(config *rest.Config, env *cli.Env, operatorNamespace, callerNamespace string) (*checker, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w; choose another one with --kubeconfig or --context", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &checker{env: env, kube: kube, dynamic: dynamicClient, operatorNamespace: operatorNamespace, callerNamespace: callerNamespace}, nil
}

// runAll makes every check, from what everything else stands on to what is only convenient.
func (e *checker) runAll(ctx context.Context) error {
	if err := e.checkAPIServer(); err != nil {
		return err
	}
	e.checkCRDs(ctx)
	e.checkOperator(ctx)
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
