package testutil

import (
	"fmt"
	"os"
	"strconv"
)

// seedEnv holds the seed of samples. `make test-api` derives it from the commit, so that every
// commit runs another sample of the long suites and a failure can be repeated.
const seedEnv = "HOLDFAST_SEED"

// Seed returns the seed for samples of long suites, 1 unless HOLDFAST_SEED says otherwise.
func Seed() uint64 {
	text := os.Getenv(seedEnv)
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%q is not a number", seedEnv, text))
	}
	return seed
}
