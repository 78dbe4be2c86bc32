// Package transport makes round trippers from functions.
package transport

import "net/http"

// Func is a function as an http.RoundTripper, as http.HandlerFunc is for handlers. The function
// must do what http.RoundTripper requires.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f Func) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
