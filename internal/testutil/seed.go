package testutil

import (
	"fmt"
	"os"
	"strconv"
)

// seedEnv is the environment variable with the seed of samples. `make test-api` derives it from the commit, so that
// every commit runs another sample of the long suites and failures are reproducible.
const seedEnv = "HOLDFAST_SEED"

// Seed returns the seed for samples of long suites: HOLDFAST_SEED, or 1.
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
