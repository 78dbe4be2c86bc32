package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
)

// Helpers of the seeded bugs for requests and answers.

// read returns the body of a request, which can still be sent afterwards.
func read(request *http.Request) []byte {
	if request.Body == nil {
		return nil
	}
	content, err := io.ReadAll(request.Body)
	if err != nil {
		content = []byte(err.Error()) // the API server will refuse it
	}
	_ = request.Body.Close()
	fill(request, content)
	return content
}

// fill sets the body of a request.
func fill(request *http.Request, content []byte) {
	request.Body = io.NopCloser(bytes.NewReader(content))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	request.ContentLength = int64(len(content))
}

// bare returns another request of the same client, without a body.
func bare(request *http.Request, method, target string) *http.Request {
	made := request.Clone(request.Context())
	made.Method, made.URL.Path, made.URL.RawQuery = method, target, ""
	made.Body, made.GetBody, made.ContentLength = nil, nil, 0
	return made
}

// merging returns a merge patch of the same client, of the object at target.
func merging(request *http.Request, target, manager, patch string) *http.Request {
	made := bare(request, http.MethodPatch, target)
	if manager != "" {
		made.URL.RawQuery = "fieldManager=" + manager
	}
	made.Header.Set("Content-Type", "application/merge-patch+json")
	fill(made, []byte(patch))
	return made
}

// altered returns a copy of a request with a change in the object that it sends. The original can
// be sent too.
func altered(request *http.Request, method, target string, change func(map[string]any)) *http.Request {
	content := read(request)
	made := bare(request, method, target)
	made.URL.RawQuery = request.URL.RawQuery
	if method == http.MethodPost {
		made.URL.RawQuery = "fieldManager=" + request.URL.Query().Get("fieldManager")
		made.Header.Set("Content-Type", "application/json")
	}
	var object map[string]any
	if json.Unmarshal(content, &object) == nil {
		change(object)
		if changed, err := json.Marshal(object); err == nil {
			content = changed
		}
	}
	fill(made, content)
	return made
}

// siblingPath returns the path of another object of the same kind and namespace.
func siblingPath(request *http.Request, name string) string {
	return strings.TrimSuffix(path.Dir(request.URL.Path)+"/"+name, "/")
}

// renamed returns the same request for an object of another name.
func renamed(request *http.Request, name string) *http.Request {
	return altered(request, request.Method, siblingPath(request, name), func(object map[string]any) {
		object["metadata"].(map[string]any)["name"] = name
	})
}

// anyVersion returns an apply that also changes an object that exists, where the manager's creates
// one or fails.
func anyVersion(request *http.Request) *http.Request {
	return altered(request, request.Method, request.URL.Path, func(object map[string]any) {
		delete(object["metadata"].(map[string]any), "resourceVersion")
	})
}

// discard reads an answer whose content does not matter.
func discard(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return err
}

// answer returns an answer that no API server has sent.
func answer(request *http.Request, content []byte) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)),
	}
}

// eachJSON changes every JSON value of a stream.
func eachJSON(body io.ReadCloser, change func([]byte) []byte) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		decoder := json.NewDecoder(body)
		for {
			var value json.RawMessage
			err := decoder.Decode(&value)
			if err == nil {
				_, err = writer.Write(change(value))
			}
			if err != nil {
				_ = writer.CloseWithError(err)
				return
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{reader, body}
}
