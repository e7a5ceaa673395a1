package engine

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// longestTurn is how long a pass may compute before others do, too: it may be waiting for
// something after all.
const longestTurn = 100 * time.Millisecond

// turns are how many passes compute at the same time: as many as there are cores. There are more
// workers than that, since nearly all of them wait for the API server. After a start none does:
// each would compute for a millisecond, all at the same time, and the pass of somebody who has
// just edited an application would stand in line with them whenever it has got an answer.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

type turnKey struct{}

// takeTurn waits until a pass may compute. Its turn ends with its first request to the API
// server, and at the latest when the function is called that is returned.
func takeTurn(ctx context.Context) (context.Context, func()) {
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return ctx, func() {}
	}
	end := sync.OnceFunc(func() { <-turns })
	timer := time.AfterFunc(longestTurn, end)
	return context.WithValue(ctx, turnKey{}, end), func() {
		timer.Stop()
		end()
	}
}

// endTurn lets others compute while a pass waits.
func endTurn(ctx context.Context) {
	if end, ok := ctx.Value(turnKey{}).(func()); ok {
		end()
	}
}
