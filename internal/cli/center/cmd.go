// Package center implements kubectl holdfast center, which prints the status of the application center.
//
// Safety rule: it only reads. Informers that are not up to date are reported and change the exit code.
package center

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
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/cli/portforward"
)

// options has the flags.
type options struct {
	cli.Output
	portforward.Flags
}

// Command returns the center command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "center",
		Short: "Show the informers of the application center",
		Long: `Show the informers of the application center with their state, their number of objects and how often
their watch was disconnected, and the number of connected clients.

You need permission to list nodes. The exit code is 2 if an informer is neither Live nor Forbidden.
Forbidden is not an error, because the permissions of the center are a choice of the administrator.`,
		Example: `  kubectl holdfast center
  kubectl holdfast center --pod holdfast-center-5b4888b74b-vrvw9 -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	o.AddFlags(cmd.Flags())
	return cmd
}

// centerStatus has the fields of the center's response that the table shows. Machine-readable output has
// all fields, including those of other versions.
type centerStatus struct {
	Version      string     `json:"version"`
	Started      time.Time  `json:"started"`
	Applications int        `json:"applications"`
	Informers    []informer `json:"informers"`
	Queue        struct {
		Waiting                  int     `json:"waiting"`
		OldestSeconds            float64 `json:"oldestSeconds"`
		Inspections              uint64  `json:"builds"`
		InspectionSeconds        float64 `json:"buildSeconds"`
		LongestInspectionSeconds float64 `json:"longestSeconds"`
	} `json:"queue"`
	Hub struct {
		Clients    int    `json:"clients"`
		Deliveries uint64 `json:"deliveries"`
		Snapshots  uint64 `json:"snapshots"`
		Resumed    uint64 `json:"resumed"`
		ClosedSlow uint64 `json:"closedSlow"`
	} `json:"streams"`
	Access struct {
		TokenReviews  uint64 `json:"tokenReviews"`
		AccessReviews uint64 `json:"accessReviews"`
		Cached        uint64 `json:"cached"`
	} `json:"authz"`
	History    int    `json:"history"`
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heapBytes"`
}

type informer struct {
	Resource    string     `json:"resource"`
	Group       string     `json:"group"`
	Version     string     `json:"version"`
	Namespace   string     `json:"namespace"`
	State       string     `json:"state"`
	Since       time.Time  `json:"since"`
	Message     string     `json:"message"`
	Objects     int        `json:"objects"`
	LastEvent   *time.Time `json:"lastEvent"`
	Events      int64      `json:"events"`
	Lists       int64      `json:"lists"`
	Disconnects int64      `json:"disconnects"`
}

func (o *options) run(ctx context.Context, env *cli.Env, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Connecting to the application center")
	t, transport, err := o.Open(ctx, env)
	if err != nil {
		done()
		return err
	}
	defer t.Close()
	body, err := fetch(ctx, transport)
	done()
	if err != nil {
		return err
	}
	return o.printAndCheck(body, t.Pod(), env.Now(), env.Terminal(out))
}

const (
	// requestTimeout limits the request to the center.
	requestTimeout = 15 * time.Second
	// maxResponseBytes limits the size of the response.
	maxResponseBytes = 64 << 20
)

func fetch(ctx context.Context, transport http.RoundTripper) ([]byte, error) {
	client := http.Client{Transport: transport, Timeout: requestTimeout}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, portforward.URL+"/api/v1/center", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("get the status of the application center: %w", errors.Unwrap(err)) // without the internal URL
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return nil, fmt.Errorf("read the response of the application center: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return body, nil
	}
	var failure struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &failure) != nil || failure.Message == "" {
		failure.Message = http.StatusText(response.StatusCode)
	}
	return nil, fmt.Errorf("the application center responded with status %d: %s", response.StatusCode, failure.Message)
}

// printAndCheck prints the response of the center. It returns ErrNotReady if an informer is not healthy.
func (o *options) printAndCheck(body []byte, pod string, now time.Time, out cli.Terminal) error {
	var status centerStatus
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("decode the response of the application center: %w; kubectl holdfast doctor compares the versions", err)
	}
	if o.IsMachineReadable() {
		all := map[string]any{}
		if err := json.Unmarshal(body, &all); err != nil {
			return err
		}
		header := cli.NewHeader("CenterStatus")
		all["apiVersion"], all["kind"], all["pod"] = header.APIVersion, header.Kind, pod
		if err := o.Print(out, all); err != nil {
			return err
		}
	} else {
		o.print(&status, pod, now, out)
	}
	if slices.ContainsFunc(status.Informers, func(i informer) bool { return !isHealthy(i.State) }) {
		return cli.ErrNotReady
	}
	return nil
}

func isHealthy(state string) bool { return state == stateLive || state == stateForbidden }

// States of informers.
const stateLive, stateForbidden = "Live", "Forbidden"

func (o *options) print(status *centerStatus, pod string, now time.Time, out cli.Terminal) {
	fmt.Fprintf(out, "Pod %s, version %s, up for %s\n", pod, status.Version, collect.Age(status.Started, now))
	fmt.Fprintf(out, "%s, %s, %s\n",
		pluralize(status.Applications, "application"), pluralize(status.History, "history entry"), pluralize(status.Hub.Clients, "client"))
	if q := status.Queue; q.Waiting > 0 {
		fmt.Fprintf(out, "%s queued, the oldest for %.1f s\n", pluralize(q.Waiting, "application"), q.OldestSeconds)
	}
	if o.Format == cli.FormatWide {
		fmt.Fprintf(out, "%d inspections of applications, %.2f ms on average, %.0f ms at most\n",
			status.Queue.Inspections, 1000*status.Queue.InspectionSeconds/float64(max(status.Queue.Inspections, 1)),
			1000*status.Queue.LongestInspectionSeconds)
		fmt.Fprintf(out,
			"%d deliveries, %d snapshots, %d resumed streams, %d slow streams closed; "+
				"%d token reviews and %d access reviews sent, %d results cached; heap %s, %d goroutines\n",
			status.Hub.Deliveries, status.Hub.Snapshots, status.Hub.Resumed, status.Hub.ClosedSlow, status.Access.TokenReviews, status.Access.AccessReviews, status.Access.Cached,
			resource.NewQuantity(int64(status.HeapBytes)>>20<<20, resource.BinarySI), status.Goroutines) //nolint:gosec // fits
	}
	fmt.Fprintln(out)
	table := cli.Table{Columns: []string{"RESOURCE", "NAMESPACE", "STATE", "OBJECTS", "EVENTS", "LISTS",
		"DISCONNECTS", "SINCE", "MESSAGE"}, StackLastColumn: true}
	if o.Format == cli.FormatWide {
		table.Columns = slices.Insert(table.Columns, 1, "VERSION")
		table.Columns = slices.Insert(table.Columns, 9, "LAST EVENT")
	}
	stateColumn := slices.Index(table.Columns, "STATE")
	for _, i := range status.Informers {
		namespace := i.Namespace
		if namespace == "" {
			namespace = "*"
		}
		row := []string{strings.TrimSuffix(i.Resource+"."+i.Group, "."), namespace, i.State, strconv.Itoa(i.Objects),
			strconv.FormatInt(i.Events, 10), strconv.FormatInt(i.Lists, 10), strconv.FormatInt(i.Disconnects, 10), collect.Age(i.Since, now), i.Message}
		if o.Format == cli.FormatWide {
			lastEvent := ""
			if i.LastEvent != nil {
				lastEvent = collect.Age(*i.LastEvent, now)
			}
			row = slices.Insert(row, 1, i.Version)
			row = slices.Insert(row, 9, cli.OrDash(lastEvent))
		}
		table.Rows = append(table.Rows, row)
	}
	table.Colorize = func(column int, text string) string {
		switch {
		case column != stateColumn:
			return text
		case text == stateLive:
			return out.Colorize(cli.ColorGood, text)
		case text == stateForbidden:
			return out.Colorize(cli.ColorWarning, text)
		}
		return out.Colorize(cli.ColorBad, text)
	}
	table.Print(out)
}

// pluralize formats a number with a noun.
func pluralize(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
