package web

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

func send(w http.ResponseWriter, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content) // who has gone does not read it
}

func page(w http.ResponseWriter, _ *http.Request) { send(w, "text/html; charset=utf-8", pageHTML) }
func script(w http.ResponseWriter, _ *http.Request) {
	send(w, "text/javascript; charset=utf-8", pageJS)
}
func style(w http.ResponseWriter, _ *http.Request)   { send(w, "text/css; charset=utf-8", pageCSS) }
func openAPI(w http.ResponseWriter, _ *http.Request) { send(w, "application/json", openAPIJSON) }
