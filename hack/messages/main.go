// Command messages writes docs/reference/messages.md: every message that users meet, with its code,
// an example and where it appears. It reads the source, so no message can be forgotten.
//
//	messages ROOT FILE
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// message is one row of the page.
type message struct {
	code  string // reason of a condition or event, or code of a cause
	text  string // with placeholders in angle brackets
	where string
}

// area is one table of the page: the messages of some packages.
type area struct {
	title, intro string
	packages     []string
	where        string // where a message appears, unless its package says it better
	code         string // code of errors that do not name one themselves
}

var areas = []area{
	{
		title: "Conditions and events", where: "condition, event",
		intro: "The reason is in `status.conditions[].reason`, the text in `.message`. " +
			"When condition `Ready` changes, the operator also emits an event with the same text. " +
			"Errors without a reason of their own appear with reason `ApplyFailed`.",
		packages: []string{"internal/reconcile", "internal/reconcile/execute", "internal/rollout", "internal/apply", "internal/ownership", "internal/fieldmanager",
			"internal/database", "internal/mariadb", "internal/mariadb/session", "internal/health"},
	},
	{
		title: "Invalid specs", where: "condition Ready", code: "InvalidSpec",
		intro:    "The operator reports these in condition `Ready` with reason `InvalidSpec`. The state in the cluster stays as it was.",
		packages: []string{"internal/desired"},
	},
	{
		title: "Causes", where: "`why`, condition Ready",
		intro:    "`kubectl holdfast why` prints message and fix; `status.causes` has the code. [Causes](../user/causes.md) explains each code.",
		packages: []string{"internal/explain"},
	},
	{
		title: "Plugin", where: "kubectl holdfast",
		intro:    "Errors and output of `kubectl holdfast`, by verb.",
		packages: []string{"internal/cli", "internal/cli/*", "internal/edit", "internal/simulate"},
	},
	{
		title: "Application center", where: "HTTP API",
		intro:    "Errors of the HTTP API: `{\"code\": ..., \"message\": ...}`.",
		packages: []string{"internal/center/httpapi", "internal/center/actions", "internal/center/authz", "internal/center/informers", "internal/center/sse"},
	},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: messages ROOT FILE")
		os.Exit(2)
	}
	page, err := generate(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(page), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

const head = `<!-- Written by make generate from the source; do not edit. -->
# Messages

Every message that Holdfast shows, with its code, an example and where it appears. Placeholders are in angle brackets.
Programs should rely on codes, not on texts. Examples come from tests and from [misuse.md](../reports/misuse.md).
`

func generate(root string) (string, error) {
	examples, err := readExamples(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	for _, a := range areas {
		messages, err := readArea(root, a)
		if err != nil {
			return "", err
		}
		writeTable(&b, a.title, a.intro, messages, examples)
	}
	admission, err := readAdmission(root)
	if err != nil {
		return "", err
	}
	writeTable(&b, "Admission", "The API server rejects a request with one of these messages. "+
		"The column code contains the field that the rule validates, or the name of the ValidatingAdmissionPolicy.", admission, examples)
	return b.String(), nil
}

func readArea(root string, a area) ([]message, error) {
	var out []message
	seen := map[message]bool{}
	for _, pattern := range a.packages {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			found, err := readPackage(dir, a)
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				if !seen[m] {
					seen[m] = true
					out = append(out, m)
				}
			}
		}
	}
	return out, nil
}

func writeTable(b *strings.Builder, title, intro string, messages []message, e *examples) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| code | text | example | appears in |\n| --- | --- | --- | --- |\n", title, intro)
	for _, m := range messages {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", codeCell(m.code), cell(m.text), cell(e.find(m.text)), m.where)
	}
}

func codeCell(code string) string {
	if code == "" {
		return ""
	}
	return "`" + code + "`"
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}
