// Package ui is the verb ui: the page of the application center in a browser, without an
// address or a token to type.
//
// Safety rule: whoever may ask the local port sees what the user may see. It listens on this
// machine alone, and answers only those who know the address that was printed, and no page of
// anybody else that is open in the same browser.
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

// options are the flags.
type options struct {
	portforward.Flags
	port int
	open bool
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the page of the application center",
		Long: `Open the page of the application center: all applications that you may see, live.

The plugin goes through the API server to a pod of the center and shows it the token of your kubeconfig,
so that the page shows what you may read. It takes the rights to list pods and to create pods/portforward
in the center's namespace. The address that is printed is a secret: whoever on this machine knows it
sees what you see, until you end this with Ctrl-C.`,
		Example: `  kubectl holdfast ui --open
  kubectl holdfast ui --port 8080 --serviceaccount viewer -n shop`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().IntVar(&o.port, "port", 0, "local port; 0 is one that is free")
	cmd.Flags().BoolVar(&o.open, "open", false, "open the page in your browser")
	return cmd
}

func (o *options) run(ctx context.Context, env *cli.Env, out, errOut io.Writer) error {
	done := cli.Progress(errOut, "Reaching the application center")
	t, transport, err := o.Open(ctx, env)
	done()
	if err != nil {
		return err
	}
	defer t.Close()
	// Never any other address: there is no token to show at this port.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("listen on port %d: %w; choose another one with --port", o.port, err)
	}
	p := newProxy(listener.Addr().String(), transport)
	fmt.Fprintf(out, "The application center (pod %s) is at\n\n  %s\n\nEnd with Ctrl-C.\n", t.Pod(), p.url())
	if o.open {
		cleanup, err := openBrowser(ctx, p.url())
		if err != nil {
			fmt.Fprintf(errOut, "No browser was opened: %v; open the address yourself.\n", err)
		}
		defer cleanup()
	}
	return serve(ctx, listener, p)
}

// serve serves until the context ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // streams have no end to wait for
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}
