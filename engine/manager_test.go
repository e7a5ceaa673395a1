package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestManagerOptionsKeys(t *testing.T) {
	withFinalizer := appsapi.NewKeys("shop.example.com", "shop-operator")
	withFinalizer.Finalizer = "example.com/cleanup"
	for name, tc := range map[string]struct {
		options ManagerOptions
		want    *appsapi.Keys
		err     string
	}{
		"defaults":                   {ManagerOptions{}, appsapi.DefaultKeys, ""},
		"all":                        {ManagerOptions{LabelPrefix: "shop.example.com", FieldManager: "shop-operator", Finalizer: "example.com/cleanup"}, withFinalizer, ""},
		"only a prefix":              {ManagerOptions{LabelPrefix: "example.com"}, appsapi.NewKeys("example.com", "holdfast"), ""},
		"prefix with a slash":        {ManagerOptions{LabelPrefix: "example.com/"}, nil, `LabelPrefix "example.com/" is not a domain`},
		"finalizer without a domain": {ManagerOptions{Finalizer: "cleanup"}, nil, `Finalizer "cleanup" does not have the form example.com/name`},
		"long field manager":         {ManagerOptions{FieldManager: strings.Repeat("x", 125)}, nil, "FieldManager"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.options.keys()
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("got error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}
