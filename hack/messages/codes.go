package main

import "github.com/holdfast-dev/holdfast/internal/explain"

// catalogCodes are the names of the constants of all causes.
var catalogCodes = func() map[string]bool {
	codes := map[string]bool{}
	for _, info := range explain.Catalog {
		codes[string(info.Code)] = true
	}
	return codes
}()
