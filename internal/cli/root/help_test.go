package root

import (
	"bytes"
	"strings"
	"testing"
)

// run returns the output of the plugin.
func run(args ...string) (string, error) {
	var out bytes.Buffer
	root := Command("dev")
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestHelpGroupsCommands(t *testing.T) {
	help, err := run("--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Usage:\n  kubectl holdfast COMMAND\n\nInspect applications:\n", "\nChange applications:\n", "\nInstallation and support:\n", "\n  why          Explain why"} {
		if !strings.Contains(help, want) {
			t.Errorf("help lacks %q:\n%s", want, help)
		}
	}
	for _, c := range Command("dev").Commands() {
		if c.GroupID == "" && !c.Hidden {
			t.Errorf("command %s has no group", c.Name())
		}
	}
}

func TestGlobalFlagsHaveTheirOwnCommand(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"status", "--help"}} {
		help, err := run(args...)
		if err != nil || strings.Contains(help, "--kubeconfig") || !strings.Contains(help, `Use "kubectl holdfast options" for`) {
			t.Errorf("%v: %v\n%s", args, err, help)
		}
	}
	if help, err := run("status", "--help"); err != nil || !strings.Contains(help, "-w, --watch") {
		t.Errorf("%v\n%s", err, help)
	}
	if options, err := run("options"); err != nil || !strings.Contains(options, "--kubeconfig string") {
		t.Errorf("%v\n%s", err, options)
	}
}

func TestUnknownCommandsSuggestTheRightOne(t *testing.T) {
	for name, want := range map[string]string{"describe": "status", "explain": "why", "statsu": "status", "undo": "rollback", "pause": "suspend", "diff": "plan"} {
		if _, err := run(name, "shop"); err == nil || !strings.Contains(err.Error(), "Did you mean this?") || !strings.Contains(err.Error(), "\n\t"+want+"\n") {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	for command, others := range otherNames {
		if c, _, err := Command("dev").Find([]string{command}); err != nil || c.Name() != command {
			t.Errorf("suggestions %v are for %s, which does not exist", others, command)
		}
	}
}
