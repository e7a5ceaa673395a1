// Package engine is the verb engine: what the application center follows, and how that goes.
//
// Safety rule: it only reads, and repeats what the center says of itself. What the center does not
// hear of is said to be so, and ends with another exit code.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/cli/tunnel"
)

// options are the flags.
type options struct {
	cli.Output
	tunnel.Flags
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Show what the application center follows, and how that goes",
		Long: `Show what the application center follows, and how that goes: every informer with its state, how many
objects it has and how often its stream broke, and the clients that follow.

The center shows its engine to those who may list nodes. The exit code is 2 when an informer is neither
Live nor Forbidden: what the center may not read is for whoever gives it rights to decide.`,
		Example: `  kubectl holdfast engine
  kubectl holdfast engine --pod holdfast-center-5b4888b74b-vrvw9 -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatPath)
	o.Add(cmd.Flags())
	return cmd
}

// engine is what is shown to people of what the center says. A center of another version may say
// more, which programs get to see as well.
type engine struct {
	Version      string     `json:"version"`
	Started      time.Time  `json:"started"`
	Applications int        `json:"applications"`
	Informers    []informer `json:"informers"`
	Queue        struct {
		Waiting        int     `json:"waiting"`
		OldestSeconds  float64 `json:"oldestSeconds"`
		Looks          uint64  `json:"looks"`
		LookSeconds    float64 `json:"lookSeconds"`
		LongestSeconds float64 `json:"longestSeconds"`
	} `json:"queue"`
	Hub struct {
		Clients    int    `json:"clients"`
		Deliveries uint64 `json:"deliveries"`
		Snapshots  uint64 `json:"snapshots"`
		Resumed    uint64 `json:"resumed"`
		ClosedSlow uint64 `json:"closedSlow"`
	} `json:"hub"`
	Access struct {
		TokenReviews  uint64 `json:"tokenReviews"`
		AccessReviews uint64 `json:"accessReviews"`
		Cached        uint64 `json:"cached"`
	} `json:"access"`
	History    int    `json:"history"`
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heapBytes"`
}

type informer struct {
	Resource  string     `json:"resource"`
	Group     string     `json:"group"`
	Version   string     `json:"version"`
	Namespace string     `json:"namespace"`
	State     string     `json:"state"`
	Since     time.Time  `json:"since"`
	Message   string     `json:"message"`
	Objects   int        `json:"objects"`
	Heard     *time.Time `json:"heard"`
	Events    int64      `json:"events"`
	Lists     int64      `json:"lists"`
	Cuts      int64      `json:"cuts"`
}

func (o *options) run(ctx context.Context, env *cli.Env, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Asking the application center")
	t, transport, err := o.Open(ctx, env)
	if err != nil {
		done()
		return err
	}
	defer t.Close()
	body, err := get(ctx, transport)
	done()
	if err != nil {
		return err
	}
	return o.answer(body, t.Pod(), env.Now(), env.Terminal(out))
}

const (
	// patience is how long the center may take.
	patience = 15 * time.Second
	// maxAnswer is more than any engine has to say.
	maxAnswer = 64 << 20
)

func get(ctx context.Context, transport http.RoundTripper) ([]byte, error) {
	client := http.Client{Transport: transport, Timeout: patience}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, tunnel.URL+"/api/v1/engine", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the application center: %w", errors.Unwrap(err)) // not at what address
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read what the application center says: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return body, nil
	}
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		said.Message = http.StatusText(answer.StatusCode)
	}
	return nil, fmt.Errorf("the application center answers %d: %s", answer.StatusCode, said.Message)
}

// answer prints what the center said, and says how the verb ends.
func (o *options) answer(body []byte, pod string, now time.Time, out cli.Terminal) error {
	var e engine
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read what the application center says: %w; is it of the version of this plugin? kubectl holdfast doctor looks", err)
	}
	if o.Machine() {
		all := map[string]any{}
		if err := json.Unmarshal(body, &all); err != nil {
			return err
		}
		header := cli.NewHeader("Engine")
		all["apiVersion"], all["kind"], all["pod"] = header.APIVersion, header.Kind, pod
		if err := o.Print(out, all); err != nil {
			return err
		}
	} else {
		o.print(&e, pod, now, out)
	}
	if slices.ContainsFunc(e.Informers, func(i informer) bool { return !fine(i.State) }) {
		return cli.ErrNotReady
	}
	return nil
}

func fine(state string) bool { return state == live || state == forbidden }

// States of informers.
const live, forbidden = "Live", "Forbidden"

func (o *options) print(e *engine, pod string, now time.Time, out cli.Terminal) {
	fmt.Fprintf(out, "Pod %s, version %s, up for %s\n", pod, e.Version, look.Age(e.Started, now))
	fmt.Fprintf(out, "%s, %s of history, %s\n", count(e.Applications, "application"), count(e.History, "entry"), count(e.Hub.Clients, "client"))
	if q := e.Queue; q.Waiting > 0 {
		fmt.Fprintf(out, "%s to be looked at, since %.1f s\n", count(q.Waiting, "application"), q.OldestSeconds)
	}
	if o.Format == cli.FormatWide {
		fmt.Fprintf(out, "%d looks at applications, %.2f ms each, the longest %.0f ms\n", e.Queue.Looks, 1000*e.Queue.LookSeconds/float64(max(e.Queue.Looks, 1)), 1000*e.Queue.LongestSeconds)
		fmt.Fprintf(out, "%d deliveries, %d snapshots, %d resumed, %d too slow; %d token reviews, %d access reviews, %d answered from memory; heap %s, %d goroutines\n",
			e.Hub.Deliveries, e.Hub.Snapshots, e.Hub.Resumed, e.Hub.ClosedSlow, e.Access.TokenReviews, e.Access.AccessReviews, e.Access.Cached,
			resource.NewQuantity(int64(e.HeapBytes)>>20<<20, resource.BinarySI), e.Goroutines) //nolint:gosec // fits
	}
	fmt.Fprintln(out)
	table := cli.Table{Columns: []string{"RESOURCE", "NAMESPACE", "STATE", "OBJECTS", "EVENTS", "LISTS", "CUTS", "SINCE", "WHY"}, Below: true}
	if o.Format == cli.FormatWide {
		table.Columns = slices.Insert(table.Columns, 1, "VERSION")
		table.Columns = slices.Insert(table.Columns, 9, "HEARD")
	}
	state := slices.Index(table.Columns, "STATE")
	for _, i := range e.Informers {
		namespace := i.Namespace
		if namespace == "" {
			namespace = "*"
		}
		row := []string{strings.TrimSuffix(i.Resource+"."+i.Group, "."), namespace, i.State, strconv.Itoa(i.Objects),
			strconv.FormatInt(i.Events, 10), strconv.FormatInt(i.Lists, 10), strconv.FormatInt(i.Cuts, 10), look.Age(i.Since, now), i.Message}
		if o.Format == cli.FormatWide {
			heard := ""
			if i.Heard != nil {
				heard = look.Age(*i.Heard, now)
			}
			row = slices.Insert(row, 1, i.Version)
			row = slices.Insert(row, 9, cli.OrNone(heard))
		}
		table.Rows = append(table.Rows, row)
	}
	table.Paint = func(column int, text string) string {
		switch {
		case column != state:
			return text
		case text == live:
			return out.Paint(cli.Good, text)
		case text == forbidden:
			return out.Paint(cli.Busy, text)
		}
		return out.Paint(cli.Bad, text)
	}
	table.Print(out)
}

// count says how many there are of something.
func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(what, "y"))
	}
	return fmt.Sprintf("%d %ss", n, what)
}
