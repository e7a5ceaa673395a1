// Package markdown reads our documentation, so that tests can hold it to what it says.
//
// Safety rule: a block that it cannot read is an error; nothing that is shown goes unread.
package markdown

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is a fenced block of code.
type Block struct {
	// Info is what stands behind the fence, Text what is inside.
	Info, Text string
	// Mark is the comment on the line before the fence: <!-- start -->.
	Mark string
	// Line of the fence.
	Line int
}

// Page is a file of documentation.
type Page struct {
	Blocks []Block
	// Links are the targets of links and pictures, by line. Those inside blocks are none.
	Links map[int][]string
	// Anchors are what links can point at: the headings, as they appear in addresses.
	Anchors map[string]bool
}

var (
	mark    = regexp.MustCompile(`^<!-- (.*) -->$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
	strange = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Read reads a file.
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
	var open *Block
	before := ""
	for i, line := range strings.Split(content, "\n") {
		text := strings.TrimSpace(line)
		info, fence := strings.CutPrefix(text, "```")
		switch {
		case fence && open != nil:
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case fence:
			open = &Block{Info: info, Line: i + 1}
			if m := mark.FindStringSubmatch(before); m != nil {
				open.Mark = m[1]
			}
		case open != nil:
			open.Text += line + "\n"
		default:
			p.prose(i+1, line)
		}
		if text != "" {
			before = text
		}
	}
	if open != nil {
		return p, fmt.Errorf("the block of line %d has no end", open.Line)
	}
	return p, nil
}

func (p *Page) prose(number int, line string) {
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		p.Links[number] = append(p.Links[number], m[1]+m[2])
	}
	if m := heading.FindStringSubmatch(line); m != nil {
		words := strange.ReplaceAllString(strings.ToLower(m[1]), "")
		p.Anchors[strings.ReplaceAll(words, " ", "-")] = true
	}
}
