// Package ui implements kubectl holdfast ui, which opens the application center in a browser through a
// local proxy.
//
// Safety rule: the proxy has the permissions of the user. It listens on 127.0.0.1 only, requires the
// secret path of the printed address and rejects requests of other web pages.
package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/portforward"
)

// options has the flags.
type options struct {
	portforward.Flags
	port int
	open bool
}

// Command returns the ui command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the application center in a browser",
		Long: `Open the application center, which shows all applications that you can read, with live updates.

The command forwards a port to a pod of the center and authenticates with the token of your kubeconfig,
so that the page shows what you can read. You need permission to list pods and to create
pods/portforward in the namespace of the center. Keep the printed address secret: any user of this
machine who knows it has your read access until you stop the command with Ctrl-C.`,
		Example: `  kubectl holdfast ui --open
  kubectl holdfast ui --port 8080 --serviceaccount viewer -n shop`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().IntVar(&o.port, "port", 0, "Local port. 0 selects a free port")
	cmd.Flags().BoolVar(&o.open, "open", false, "Open the page in your browser")
	return cmd
}

func (o *options) run(ctx context.Context, env *cli.Env, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Connecting to the application center")
	t, transport, err := o.Open(ctx, env)
	done()
	if err != nil {
		return err
	}
	defer t.Close()
	// Listens on 127.0.0.1 only, because the port requires no token.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("listen on port %d: %w; use another port with --port", o.port, err)
	}
	p := newProxy(listener.Addr().String(), transport)
	fmt.Fprintf(out, "The application center (Pod %s) is available at\n\n  %s\n\nPress Ctrl-C to stop.\n", t.Pod(), p.url())
	if o.open {
		cleanup, err := openBrowser(ctx, p.url())
		if err != nil {
			fmt.Fprintf(errOut, "Cannot open a browser: %v; open the address manually.\n", err)
		}
		defer cleanup()
	}
	return serve(ctx, listener, p)
}

// serve serves until the context is canceled.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // no graceful shutdown: event streams do not end
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}
