// Command report generates docs/reports/bench.md, docs/scale.md and their images from the results of a run of
// the benchmark in out/bench.json. All numbers in them are from that file.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// rawDataFile is a copy of the results next to the page, so that readers can repeat the calculations.
const rawDataFile = "bench.json"

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: report out/bench.json docs/reports/bench.md docs/scale.md docs/images")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

func run(from, page, scalePage, images string) error {
	r, err := results.Read(from)
	if err != nil {
		return err
	}
	imagePath, err := filepath.Rel(filepath.Dir(page), images)
	if err != nil {
		return err
	}
	pageContent, err := renderPage(r, filepath.ToSlash(imagePath))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	files := map[string]string{page: pageContent, filepath.Join(images, wallChartFile): wallChart(r)}
	if len(r.Heap) > 1 {
		files[filepath.Join(images, heapChartFile)] = heapChart(r)
	}
	if len(r.Growth) > 1 {
		if files[scalePage], err = renderScalePage(r); err != nil {
			return fmt.Errorf("%s: %w", scalePage, err)
		}
	}
	if err := r.Write(filepath.Join(filepath.Dir(page), rawDataFile)); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
