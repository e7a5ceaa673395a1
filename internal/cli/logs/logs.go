package logs

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/logs"
)

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	config, err := env.Config()
	if err != nil {
		return err
	}
	config.Timeout = 0 // --request-timeout does not apply to log streams
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	p := &printer{out: env.Terminal(out), errOut: errOut, timestamps: o.timestamps, stopProgress: func() {}}
	if !o.follow {
		p.stopProgress = sync.OnceFunc(cli.Progress(errOut, "Listing the pods of "+appkind.Title(app)))
	}
	defer p.stopProgress()
	return cli.WithHint(logs.StreamApplication(ctx, c, pods, app, o.toLogOptions(), p))
}

// toLogOptions converts the flags to the options of package logs.
func (o options) toLogOptions() logs.Options {
	return logs.Options{
		Component: o.component, Container: o.container, Follow: o.follow, Previous: o.previous,
		Tail: o.tail, Since: o.since, MaxStreams: o.maxStreams,
		Hints: logs.Hints{
			SelectFewer:  "select fewer with --component or -c, or increase --max-streams",
			OmitPrevious: "omit --previous",
		},
	}
}

// printer prints log lines.
type printer struct {
	out        cli.Terminal
	errOut     io.Writer
	timestamps bool
	// stopProgress stops the progress message.
	stopProgress func()
}

var _ logs.Sink = &printer{}

// podColors are the colors of pods. Colors with a meaning are not used.
var podColors = []string{"36", "35", "34", "96", "95", "94"}

// WriteLine prints a line with its prefix in the color of the pod.
func (p *printer) WriteLine(l logs.Line) error {
	p.stopProgress()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(l.Pod)) // cannot fail
	text := l.Text
	if p.timestamps && l.Time != "" {
		text = l.Time + " " + text
	}
	_, err := io.WriteString(p.out, p.out.Colorize(podColors[int(hash.Sum32())%len(podColors)], l.Prefix)+"  "+text+"\n")
	return err
}

// Notify prints a message to standard error.
func (p *printer) Notify(sentence string) {
	p.stopProgress()
	fmt.Fprintln(p.errOut, sentence)
}
