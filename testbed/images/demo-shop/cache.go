package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/valkey-io/valkey-go"
)

// cacheTime bounds a connection to the cache, whose handshake takes up to 3 s on a busy machine: a
// page must not wait for it longer than that.
const cacheTime = 5 * time.Second

// viewsKey is the key of the counter.
const viewsKey = "views"

// cache is the Valkey of a backend. Each request has a connection of its own, for the reason that
// [database] gives.
type cache struct {
	url       string // "": none
	authority string // the file with it; "": the authorities of the machine
}

// count adds a view, and returns how many there are; nil without a cache.
func (c cache) count(ctx context.Context) (*int64, error) {
	if c.url == "" {
		return nil, nil
	}
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := valkey.NewClient(options)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	views, err := client.Do(ctx, client.B().Incr().Key(viewsKey).Build()).AsInt64()
	if err != nil {
		return nil, err
	}
	return &views, nil
}

// options returns how to connect. Errors have no part of the URL, which has a password.
func (c cache) options() (valkey.ClientOption, error) {
	options, err := valkey.ParseURL(c.url)
	if err != nil {
		return valkey.ClientOption{}, errors.New("the URL of the cache is not one of a Valkey")
	}
	if c.authority != "" && options.TLSConfig != nil {
		authority, err := os.ReadFile(c.authority)
		if err != nil {
			return valkey.ClientOption{}, fmt.Errorf("reading the authority: %w", err)
		}
		options.TLSConfig.RootCAs = x509.NewCertPool()
		if !options.TLSConfig.RootCAs.AppendCertsFromPEM(authority) {
			return valkey.ClientOption{}, fmt.Errorf("%s has no certificate", c.authority)
		}
	}
	options.Dialer.Timeout, options.ConnWriteTimeout = cacheTime, cacheTime
	// A counter that is tried again may count twice.
	options.ForceSingleClient, options.DisableCache, options.DisableRetry = true, true, true
	return options, nil
}
