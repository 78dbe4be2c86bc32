// Package transport makes transports out of functions.
package transport

import "net/http"

// Func is a transport that is one function, as http.HandlerFunc is a handler. It keeps to what http.RoundTripper asks.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f Func) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
