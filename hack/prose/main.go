// Command prose keeps texts readable. It rejects phrases that read like a translation, and it prepares
// and scores reading reviews (docs/dev/reading-review.md).
//
//	prose lint hack/prose/phrases.txt DIR...      lists phrases of the list in texts below DIR
//	prose sheet SEED FILE... >sheet.txt           numbers the sentences and names of files, with decoys among them
//	prose score sheet.txt marks.txt               counts the marks on decoys and on the rest
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	found, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if found > 0 {
		os.Exit(1)
	}
}

// run returns how many findings there are.
func run(args []string) (int, error) {
	if len(args) < 3 {
		return 0, fmt.Errorf("usage: prose lint PHRASES DIR... | sheet SEED FILE... | score SHEET MARKS")
	}
	if args[0] == "lint" {
		findings, err := lint(args[1], args[2:])
		for _, f := range findings {
			fmt.Println(f)
		}
		if len(findings) > 0 {
			fmt.Printf("%d findings\n", len(findings))
		}
		return len(findings), err
	}
	switch args[0] {
	case "sheet":
		seed, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return 0, err
		}
		return 0, printSheet(os.Stdout, seed, args[2:])
	case "score":
		return 0, printScore(os.Stdout, args[1], args[2])
	}
	return 0, fmt.Errorf("unknown command %q", args[0])
}
