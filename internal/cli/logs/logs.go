package logs

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/logs"
)

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	config, err := env.Config()
	if err != nil {
		return err
	}
	config.Timeout = 0 // --request-timeout is for answers; a log may go on
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	p := &printer{out: env.Terminal(out), errOut: errOut, timestamps: o.timestamps, looked: func() {}}
	if !o.follow {
		p.looked = sync.OnceFunc(cli.Progress(errOut, "Looking for the pods of "+application.Title(app)))
	}
	defer p.looked()
	return cli.Explained(logs.OfApplication(ctx, c, pods, app, o.shared(), p))
}

// shared are the options in the words of who reads the logs.
func (o options) shared() logs.Options {
	return logs.Options{
		Component: o.component, Container: o.container, Follow: o.follow, Previous: o.previous,
		Tail: o.tail, Since: o.since, Streams: o.streams,
		Hints: logs.Hints{
			Fewer:       "choose with --component or -c, or follow more with --max-streams",
			NotPrevious: "leave out --previous",
		},
	}
}

// printer prints lines for people.
type printer struct {
	out        cli.Terminal
	errOut     io.Writer
	timestamps bool
	// looked ends the word about what is being done.
	looked func()
}

var _ logs.Out = &printer{}

// palette has the colours of pods, those that mean something left out.
var palette = []string{"36", "35", "34", "96", "95", "94"}

// Line begins with where it is from, in the colour of its pod.
func (p *printer) Line(l logs.Line) error {
	p.looked()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(l.Pod)) // cannot fail
	text := l.Text
	if p.timestamps && l.Time != "" {
		text = l.Time + " " + text
	}
	_, err := io.WriteString(p.out, p.out.Paint(palette[int(hash.Sum32())%len(palette)], l.From)+"  "+text+"\n")
	return err
}

// Say is for people, beside what was asked for.
func (p *printer) Say(sentence string) {
	p.looked()
	fmt.Fprintln(p.errOut, sentence)
}
