package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// Files of the images.
const (
	wallChartFile = "bench-wall.svg"
	heapChartFile = "bench-heap.svg"
)

// Colors that are readable on light and dark pages.
const (
	textColor     = "#6b7280"
	operatorColor = "#0d9488"
	bareColor     = "#9ca3af"
	peerColor     = "#d97706"
)

// renderSVG renders an image; desc is its text alternative.
func renderSVG(width, height int, title, desc string, body func(p printer)) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="%s" role="img">`, width, height, textColor)
	p(`<title>%s</title>`, html.EscapeString(title))
	p(`<desc>%s</desc>`, html.EscapeString(desc))
	body(p)
	p(`</svg>`)
	return b.String()
}

// wallChart shows the wall time of each contender as a multiple of the bare engine. Very long bars
// are cut off; the number shows the ratio.
func wallChart(r *results.Run) string {
	const left, width, row, maxRatio = 210, 720, 30, 10.0
	scale := (width - left - 110) / maxRatio
	title := fmt.Sprintf("%d applications at once: wall time as a multiple of bare client-go making the same writes", r.Apps)
	var desc []string
	for _, c := range r.Contenders {
		if ratios := r.WallRatios(c.ID, results.BareContender); len(ratios) > 0 {
			desc = append(desc, fmt.Sprintf("%s %.2f", c.Name, results.Median(ratios)))
		}
	}
	return renderSVG(width, row*(len(r.Contenders)+2), title, "Bars, the shortest is the fastest: "+strings.Join(desc, ", "), func(p printer) {
		p(`<text x="0" y="16" font-weight="600">%s</text>`, html.EscapeString(title))
		y := row
		for _, c := range r.Contenders {
			ratios := r.WallRatios(c.ID, results.BareContender)
			if len(ratios) == 0 {
				continue
			}
			color := peerColor
			switch {
			case c.ID == "C1":
				color = operatorColor
			case strings.HasPrefix(c.ID, "C0"):
				color = bareColor
			}
			median := results.Median(ratios)
			low, high := results.MinMax(ratios)
			length := min(median, maxRatio) * scale
			p(`<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+16, html.EscapeString(c.Name))
			p(`<rect x="%d" y="%d" width="%.1f" height="20" rx="2" fill="%s"/>`, left, y+2, length, color)
			if high <= maxRatio {
				p(`<path d="M%.1f %dH%.1f" stroke="%s" stroke-width="2"/>`, left+low*scale, y+12, left+high*scale, textColor)
			}
			p(`<text x="%.1f" y="%d">%.2f x</text>`, left+max(length, min(high, maxRatio)*scale)+6, y+17, median)
			y += row
		}
		p(`<path d="M%.1f %dV%d" stroke="%s" stroke-dasharray="3 3"/>`, left+scale, row-4, y, textColor)
	})
}

// heapChart shows live memory by number of applications.
func heapChart(r *results.Run) string {
	const left, bottom, width, height = 60, 40, 720, 300
	last := r.Heap[len(r.Heap)-1]
	maxX, maxY := float64(last.Apps), 0.0
	for _, h := range r.Heap {
		maxY = max(maxY, h.LiveMB)
	}
	x := func(apps int) float64 { return left + float64(apps)/maxX*(width-left-30) }
	y := func(mb float64) float64 { return height - bottom - mb/maxY*(height-bottom-40) }
	kib, r2 := results.HeapSlope(r.Heap)
	title := fmt.Sprintf("Live heap of the operator: %.1f KiB per application (R² %.3f)", kib, r2)
	desc := fmt.Sprintf("A line that rises to %.0f MiB at %d applications", last.LiveMB, last.Apps)
	return renderSVG(width, height, title, desc, func(p printer) {
		p(`<text x="0" y="16" font-weight="600">%s</text>`, title)
		p(`<path d="M%d %dH%d M%d %dV30" stroke="%s"/>`, left, height-bottom, width-20, left, height-bottom, textColor)
		var points []string
		for _, h := range r.Heap {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(h.Apps), y(h.LiveMB)))
			p(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x(h.Apps), y(h.LiveMB), operatorColor)
			p(`<text x="%.1f" y="%.1f" text-anchor="middle">%.0f MiB</text>`, x(h.Apps), y(h.LiveMB)-10, h.LiveMB)
			p(`<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(h.Apps), height-bottom+18, h.Apps)
		}
		p(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), operatorColor)
	})
}
