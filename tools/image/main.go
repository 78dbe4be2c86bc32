// Command image builds a container image from the static binaries of the manager, of the API server
// and of the program in database pods, and can push it. It needs no Docker and no base image, and
// uses the network only to push.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv("REGISTRY"), os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	binary, name, version, output, arch, sbom, pushed string
	push                                              bool
}

func run(ctx context.Context, arguments []string, registry string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var o options
	flags.StringVar(&o.binary, "binary", "bin/mainstay",
		"static binary of the manager, with mainstay-apiserver and mainstay-instance beside it, to put into the image")
	flags.StringVar(&o.version, "version", "0.0.0-dev", "version that the image's labels tell")
	flags.StringVar(&o.name, "name", "", "reference of the image (default: docker.io/mainstay/mainstay:VERSION)")
	flags.StringVar(&o.output, "output", "bin/mainstay-image.tar", "file to write, for docker load or ctr images import; empty writes none")
	flags.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture that the binaries are built for")
	flags.StringVar(&o.sbom, "sbom", "", "file to write the list of all parts to, as CycloneDX; empty writes none")
	flags.BoolVar(&o.push, "push", false, "push to $REGISTRY (host[:port][/path]), which replaces the name's own registry")
	flags.StringVar(&o.pushed, "tag", "",
		"build nothing: give the image of this reference, with its digest as --push has printed it, the tag VERSION too")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.pushed != "" {
		return tag(ctx, o.pushed, o.version, out)
	}
	if o.name == "" {
		o.name = "docker.io/mainstay/mainstay:" + o.version
	}
	image, err := build(o)
	if err != nil {
		return fmt.Errorf("building the image: %w", err)
	}
	if o.output != "" {
		if err := save(o, image, out); err != nil {
			return fmt.Errorf("saving the image: %w", err)
		}
	}
	if o.sbom != "" {
		if err := saveSBOM(o); err != nil {
			return fmt.Errorf("writing the SBOM: %w", err)
		}
	}
	if o.push {
		return push(ctx, o, registry, image, out)
	}
	return nil
}
