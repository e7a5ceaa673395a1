package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed page.html
var pageHTML []byte

//go:embed page.js
var pageJS []byte

//go:embed page.css
var pageCSS []byte

//go:embed openapi.json
var openAPIJSON []byte

func writeContent(w http.ResponseWriter, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content) // fails only if the client has disconnected
}

func servePage(w http.ResponseWriter, _ *http.Request) {
	writeContent(w, "text/html; charset=utf-8", pageHTML)
}
func serveScript(w http.ResponseWriter, _ *http.Request) {
	writeContent(w, "text/javascript; charset=utf-8", pageJS)
}
func serveStyle(w http.ResponseWriter, _ *http.Request) {
	writeContent(w, "text/css; charset=utf-8", pageCSS)
}
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeContent(w, "application/json", openAPIJSON)
}
