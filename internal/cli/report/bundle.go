package report

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// bundle has the contents of the report. It redacts everything that is added, so that no caller can
// forget it.
type bundle struct {
	// title is the first line of MANIFEST.
	title string
	files []file
	// omitted lists deliberately omitted contents, unread what could not be read.
	omitted, unread []string
}

type file struct {
	name, description string
	content           []byte
}

// addText adds a text file.
func (b *bundle) addText(name, description, content string) {
	b.files = append(b.files, file{name, description, []byte(redact.Text(content))})
}

// addValue adds a value as JSON or YAML, depending on the file extension.
func (b *bundle) addValue(name, description string, addValue any) error {
	plain, err := toJSONValue(addValue)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	object, ok := plain.(map[string]any)
	if ok {
		plain = redact.Object(object)
	} else {
		plain = redact.Value(plain)
	}
	var content bytes.Buffer
	format := cli.FormatYAML
	if path.Ext(name) == ".json" {
		format = cli.FormatJSON
	}
	if err := (&cli.Output{Format: format}).Print(&content, plain); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	b.files = append(b.files, file{name, description, content.Bytes()})
	return nil
}

// toJSONValue converts a value to JSON types.
func toJSONValue(value any) (out any, err error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return out, utiljson.Unmarshal(content, &out)
}

// addUnread records that something could not be read.
func (b *bundle) addUnread(subject string, err error) {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n") // joined errors have several lines
	b.addUnreadNote(fmt.Sprintf("%s: %s", subject, strings.Join(lines, "; ")))
}

// addUnreadNote records a note about something that could not be read.
func (b *bundle) addUnreadNote(note string) { b.unread = append(b.unread, redact.Text(note)) }

// manifest returns the contents of MANIFEST.
func (b *bundle) manifest() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n\nContents\n", b.title)
	table := cli.Table{Columns: []string{"", "", ""}, NoHeaders: true}
	for _, f := range b.files {
		table.Rows = append(table.Rows, []string{"  " + f.name, fmt.Sprintf("%d bytes", len(f.content)), f.description})
	}
	if len(table.Rows) > 0 {
		table.Print(cli.Terminal{Writer: &out})
	}
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&out, "\n%s\n", title)
		for _, line := range lines {
			fmt.Fprintf(&out, "  - %s\n", line)
		}
	}
	section("Omitted", b.omitted)
	section("Redacted", redact.Rules)
	section("Could not be read", b.unread)
	return out.Bytes()
}

// zip returns a zip file with all files in a folder.
func (b *bundle) zip(folder string, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range slices.Concat([]file{{name: "MANIFEST", content: b.manifest()}}, b.files) {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: now})
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
