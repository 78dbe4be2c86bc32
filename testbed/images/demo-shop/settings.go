package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// settings are read from the environment, with the names that bindings of a WebApp give:
//
//	PORT                              port to listen on, default 8080
//	BACKEND_URL                       the backend of a frontend
//	DATABASE_URL                      the PostgreSQL of a backend; the other variables of libpq, such as
//	                                  PGSSLROOTCERT, hold too
//	VALKEY_URL, or REDIS_URL          the Valkey of a backend; without it there is no counter
//	VALKEY_CA_FILE, or REDIS_CA_FILE  the authority of its certificate
type settings struct {
	port        string
	hostname    string
	backendURL  string // "": this is a backend
	databaseURL string
	cacheURL    string // "": none
	cacheCA     string // "": the authorities of the machine
}

// parseSettings returns the settings, or what is wrong with them. No error has the value of a URL,
// which has a password.
func parseSettings(getenv func(string) string) (settings, error) {
	parsed := settings{
		port: cmp.Or(getenv("PORT"), "8080"), backendURL: strings.TrimSuffix(getenv("BACKEND_URL"), "/"), databaseURL: getenv("DATABASE_URL"),
		cacheURL: cmp.Or(getenv("VALKEY_URL"), getenv("REDIS_URL")), cacheCA: cmp.Or(getenv("VALKEY_CA_FILE"), getenv("REDIS_CA_FILE")),
	}
	if port, err := strconv.Atoi(parsed.port); err != nil || port < 0 || port > 65535 {
		return settings{}, fmt.Errorf("PORT=%q is not a port number", parsed.port)
	}
	switch {
	case parsed.backendURL != "" && parsed.databaseURL != "":
		return settings{}, errors.New("both BACKEND_URL and DATABASE_URL are set: a frontend has the first, a backend the second")
	case parsed.backendURL == "" && parsed.databaseURL == "":
		return settings{}, errors.New("neither BACKEND_URL, for a frontend, nor DATABASE_URL, for a backend, is set")
	}
	if backend, err := url.Parse(parsed.backendURL); err != nil || parsed.backendURL != "" && backend.Host == "" {
		return settings{}, errors.New("BACKEND_URL is not the URL of a server")
	}
	hostname, err := os.Hostname()
	if err != nil {
		return settings{}, fmt.Errorf("asking for the host name: %w", err)
	}
	parsed.hostname = hostname
	return parsed, nil
}
