package root

import "github.com/spf13/cobra"

// otherNames are verbs of kubectl and of other tools, by the command that does the same. Similar names are found
// without an entry.
var otherNames = map[string][]string{
	"list":     {"ps", "all"},
	"status":   {"describe", "show", "info", "health"},
	"why":      {"explain", "debug", "diagnose", "troubleshoot"},
	"tree":     {"graph", "resources", "children"},
	"logs":     {"log", "tail"},
	"find":     {"search", "grep"},
	"watch":    {"events", "changes"},
	"history":  {"revisions", "rollout"},
	"plan":     {"diff", "preview", "apply", "dry-run"},
	"rollback": {"undo", "revert"},
	"suspend":  {"pause", "stop"},
	"resume":   {"unpause", "start", "continue"},
	"restart":  {"redeploy", "reload"},
	"rotate":   {"passwords", "credentials"},
	"ui":       {"dashboard", "open", "web"},
	"doctor":   {"check", "verify"},
	"report":   {"support", "dump", "bundle"},
}

// addSuggestions makes errors about unknown commands name the right one.
func addSuggestions(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.SuggestFor = otherNames[c.Name()]
	}
}
