package controlplane

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServingHosts(t *testing.T) {
	cases := map[string]struct {
		options Options
		want    []string // in addition to the default names
	}{
		"loopback only":    {Options{ServiceRange: "10.96.0.0/12"}, []string{"127.0.0.1", "localhost", "10.96.0.1"}},
		"with an address":  {Options{ServiceRange: "10.0.0.0/24", Address: "10.88.0.1"}, []string{"127.0.0.1", "localhost", "10.0.0.1", "10.88.0.1"}},
		"an unmasked base": {Options{ServiceRange: "10.96.7.9/12"}, []string{"127.0.0.1", "localhost", "10.96.0.1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.options.servingHosts()
			if err != nil {
				t.Fatal(err)
			}
			got = slices.DeleteFunc(got, func(h string) bool { return h[0] == 'k' }) // kubernetes...
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := (&Options{ServiceRange: "10.96.0.0"}).servingHosts(); err == nil {
		t.Error("got no error for a range without a prefix length")
	}
}

func TestArguments(t *testing.T) {
	o := Options{Dir: "/d", ServiceRange: "10.96.0.0/12", ExtraArgs: map[string][]string{
		"etcd":           {"--quota-backend-bytes=1"},
		"kube-apiserver": {"--etcd-compaction-interval=0"},
	}}
	p := ports{api: 1, etcd: 2, etcdPeer: 3}
	cases := map[string]struct {
		change         func(*Options)
		args           func(*Options) []string
		want, unwanted string
	}{
		"etcd is fast by default":             {args: func(o *Options) []string { return o.etcdArgs(p) }, want: "--unsafe-no-fsync"},
		"etcd is durable with Fsync":          {change: func(o *Options) { o.Fsync = true }, args: func(o *Options) []string { return o.etcdArgs(p) }, unwanted: "--unsafe-no-fsync"},
		"etcd gets extra arguments":           {args: func(o *Options) []string { return o.etcdArgs(p) }, want: "--quota-backend-bytes=1"},
		"the API server gets extra arguments": {args: func(o *Options) []string { return o.apiServerArgs(p, "/pki") }, want: "--etcd-compaction-interval=0"},
		"loopback is not advertised":          {args: func(o *Options) []string { return o.apiServerArgs(p, "/pki") }, want: "--endpoint-reconciler-type=none"},
		"an address is advertised":            {change: func(o *Options) { o.Address = "10.88.0.1" }, args: func(o *Options) []string { return o.apiServerArgs(p, "/pki") }, want: "--advertise-address=10.88.0.1", unwanted: "--endpoint-reconciler-type=none"},
		"no audit log by default":             {args: func(o *Options) []string { return o.apiServerArgs(p, "/pki") }, unwanted: "--audit-log-path=/d/audit.log"},
		"audit":                               {change: func(o *Options) { o.Audit = true }, args: func(o *Options) []string { return o.apiServerArgs(p, "/pki") }, want: "--audit-log-path=/d/audit.log"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := o
			if tc.change != nil {
				tc.change(&o)
			}
			args := tc.args(&o)
			if tc.want != "" && !slices.Contains(args, tc.want) {
				t.Errorf("%s is missing in %q", tc.want, args)
			}
			if tc.unwanted != "" && slices.Contains(args, tc.unwanted) {
				t.Errorf("%s must not be in %q", tc.unwanted, args)
			}
		})
	}
}
