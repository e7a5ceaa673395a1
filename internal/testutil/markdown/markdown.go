// Package markdown parses the documentation, so that tests can check it.
//
// Safety rule: a block that cannot be parsed is an error, so that no example is skipped.
package markdown

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is a fenced code block.
type Block struct {
	// Info is the text after the opening fence, Text the content.
	Info, Text string
	// Marker is the comment on the line before the fence, for example <!-- start -->.
	Marker string
	// Line is the line of the fence.
	Line int
}

// Page is a documentation page.
type Page struct {
	Blocks []Block
	// Links are the targets of links and images by line, without those in code blocks.
	Links map[int][]string
	// Anchors are the targets for links: the headings as they appear in URLs.
	Anchors map[string]bool
}

var (
	markerPattern  = regexp.MustCompile(`^<!-- (.*) -->$`)
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	headingPattern = regexp.MustCompile(`^#+ (.*)$`)
	nonSlugPattern = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Read parses a file.
func Read(file string) (Page, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Page{}, err
	}
	page, err := parse(string(content))
	if err != nil {
		return Page{}, fmt.Errorf("%s: %w", file, err)
	}
	return page, nil
}

func parse(content string) (Page, error) {
	p := Page{Links: map[int][]string{}, Anchors: map[string]bool{}}
	var block *Block
	previous := ""
	for i, line := range strings.Split(content, "\n") {
		text := strings.TrimSpace(line)
		info, isFence := strings.CutPrefix(text, "```")
		switch {
		case isFence && block != nil:
			p.Blocks = append(p.Blocks, *block)
			block = nil
		case isFence:
			block = &Block{Info: info, Line: i + 1}
			if m := markerPattern.FindStringSubmatch(previous); m != nil {
				block.Marker = m[1]
			}
		case block != nil:
			block.Text += line + "\n"
		default:
			p.parseProse(i+1, line)
		}
		if text != "" {
			previous = text
		}
	}
	if block != nil {
		return p, fmt.Errorf("code block in line %d is not closed", block.Line)
	}
	return p, nil
}

func (p *Page) parseProse(lineNumber int, line string) {
	for _, m := range linkPattern.FindAllStringSubmatch(line, -1) {
		p.Links[lineNumber] = append(p.Links[lineNumber], m[1]+m[2])
	}
	if m := headingPattern.FindStringSubmatch(line); m != nil {
		slug := nonSlugPattern.ReplaceAllString(strings.ToLower(m[1]), "")
		p.Anchors[strings.ReplaceAll(slug, " ", "-")] = true
	}
}
