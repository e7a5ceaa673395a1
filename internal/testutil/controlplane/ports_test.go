package controlplane

import "testing"

func TestChoosePorts(t *testing.T) {
	got, release, err := choosePorts(7000)
	if want := (ports{api: 7000, etcd: 7001, etcdPeer: 7002}); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	release()

	seen := map[int]bool{}
	for range 100 {
		got, release, err := choosePorts(0)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		for _, port := range []int{got.api, got.etcd, got.etcdPeer} {
			if seen[port] || port < firstPort || port >= lastPort {
				t.Fatalf("port %d is a duplicate or out of range", port)
			}
			seen[port] = true
		}
	}
}
