package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

func printOrders(output string, orders []Order, out io.Writer) error {
	switch output {
	case cli.FormatJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(orders)
	case cli.FormatYAML:
		content, err := yaml.Marshal(orders)
		if err == nil {
			_, err = out.Write(content)
		}
		return err
	}
	for i, p := range orders {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := p.print(out); err != nil {
			return err
		}
	}
	return nil
}

// print prints an order as text.
func (p Order) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %s\n\n", p.title(), pluralize(len(p.Components), "component"))
	fmt.Fprintln(w, "WAVE\tCOMPONENT\tTYPE\tCHILDREN\tWAITS FOR")
	for _, c := range p.Components {
		children := joinFunc(c.Children, func(r appsapi.ObjectReference) string { return r.Kind + " " + r.Name })
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", c.Wave, c.Name, c.Type, children, orDash(strings.Join(c.WaitsFor, ", ")))
	}
	fmt.Fprintln(w, "\nIn an empty cluster:")
	e := p.EmptyCluster
	fmt.Fprintf(w, "  applied at once\t%s\n", orDash(strings.Join(e.Apply, ", ")))
	if len(e.Wait) > 0 {
		fmt.Fprintf(w, "  waiting\t%s\n", joinFunc(e.Wait, func(x Wait) string { return x.Component + " for " + joinAnd(x.For) }))
	}
	if len(e.Suspended) > 0 {
		fmt.Fprintf(w, "  suspended\t%s\n", strings.Join(e.Suspended, ", "))
	}
	fmt.Fprintf(w, "\n%s\n", p.deletionText())
	return w.Flush()
}

func (p Order) title() string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name)
}

func (p Order) deletionText() string {
	if len(p.Deletion) == 0 {
		return "Deletion order: all components at once."
	}
	var waves []string
	for _, wave := range p.Deletion {
		waves = append(waves, joinAnd(wave))
	}
	return "Deletion order: " + strings.Join(waves, ", then ") + "."
}

func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func joinFunc[T any](list []T, text func(T) string) string {
	var out []string
	for _, item := range list {
		out = append(out, text(item))
	}
	return strings.Join(out, ", ")
}

// joinAnd joins names with commas and "and".
func joinAnd(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
