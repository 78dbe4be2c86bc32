// Package ecommerceplatform has every decision about an EcommercePlatform: which AppStack it is,
// and what the status says of that. It is pure. It knows other kinds by their API types and by what
// the installation has of them, which is handed in.
package ecommerceplatform
