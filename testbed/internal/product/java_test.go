package product

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mainstay-platform/mainstay/testbed/internal/build"
)

var compiled = fstest.MapFS{"demo/Agent.class": {Data: []byte("agent")}, "Server.class": {Data: []byte("server")}}

// entriesOf returns the files of a jar in order, with their contents.
func entriesOf(t *testing.T, jar []byte) [][2]string {
	t.Helper()
	reader, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		t.Fatal(err)
	}
	var entries [][2]string
	for _, file := range reader.File {
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, [2]string{file.Name, string(content)})
	}
	return entries
}

// TestJar checks that the manifest comes first and ends with an empty line, as the virtual machine
// requires.
func TestJar(t *testing.T) {
	packed, err := jar(compiled, attribute{"Main-Class", "Server"})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{
		{"META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nMain-Class: Server\r\n\r\n"}, {"Server.class", "server"}, {"demo/Agent.class",
			"agent"},
	}
	if difference := cmp.Diff(want, entriesOf(t, packed)); difference != "" {
		t.Error(difference)
	}
	again, err := jar(compiled, attribute{"Main-Class", "Server"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(packed, again) {
		t.Error("the same classes gave two different files")
	}
}

// filesOf returns the files and links of an image by path.
func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		reader := tar.NewReader(content)
		for {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag == tar.TypeDir {
				continue
			}
			data, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = header.Linkname + string(data)
		}
	}
	return files
}

// TestDemoJavaConfig pins what other manifests rely on.
func TestDemoJavaConfig(t *testing.T) {
	images, err := demoJavaImages(compiled, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(images)); !slices.Equal(got, []string{"docker.io/mainstay/demo-java:1.0"}) {
		t.Fatalf("got %v", got)
	}
	file, err := images[DemoJavaImage].ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "10001:10001" {
		t.Errorf("the user is %q: runAsNonRoot needs a number", file.Config.User)
	}
	command := strings.Join(file.Config.Entrypoint, " ")
	if !strings.HasPrefix(command, "/usr/lib/jvm/java-17-openjdk-") || !strings.HasSuffix(command, " -jar /app/server.jar") {
		t.Errorf("it runs %q", command)
	}
	if manifest := entriesOf(t, []byte(filesOf(t, images[DemoJavaImage])["app/server.jar"]))[0][1]; !strings.Contains(manifest,
		"Main-Class: Server\r\n") {
		t.Errorf("the manifest is %q", manifest)
	}
}

// TestDemoAgentImages checks that each image has its own jar, and cp.
func TestDemoAgentImages(t *testing.T) {
	images, err := demoAgentImages(compiled, []byte("busybox"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for reference, image := range images {
		files := filesOf(t, image)
		if files["bin/busybox"] != "busybox" || files["bin/cp"] != "busybox" {
			t.Errorf("%s has the files %v", reference, slices.Sorted(maps.Keys(files)))
		}
		got[reference] = entriesOf(t, []byte(files["agent/agent.jar"]))[0][1]
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.Config.User != "10001:10001" {
			t.Errorf("the user of %s is %q", reference, file.Config.User)
		}
	}
	want := map[string]string{
		"docker.io/mainstay/demo-agent:1.0":    "Manifest-Version: 1.0\r\nPremain-Class: demo.Agent\r\nImplementation-Version: 1.0\r\n\r\n",
		"docker.io/mainstay/demo-agent:2.0":    "Manifest-Version: 1.0\r\nPremain-Class: demo.Agent\r\nImplementation-Version: 2.0\r\n\r\n",
		"docker.io/mainstay/demo-agent:broken": "Manifest-Version: 1.0\r\nPremain-Class: demo.Broken\r\nImplementation-Version: broken\r\n\r\n",
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
}

// TestJavaSources checks that a change of each source changes the key of its product.
func TestJavaSources(t *testing.T) {
	for name, want := range map[string][]string{"demo-java": {"Server.java"}, "demo-agent": {"Agent.java", "Broken.java"}} {
		sources, err := build.Sources(filepath.Join("..", "..", "images", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range want {
			if !slices.Contains(sources, file) {
				t.Errorf("%s is not among the sources of %s", file, name)
			}
		}
	}
}

// TestAllImages checks that images that are not on every node can be built by name, and that `up`
// does not build them.
func TestAllImages(t *testing.T) {
	for _, name := range []string{"kubectl", "demo-java", "demo-agent"} {
		if slices.Contains(Images(), name) || !slices.Contains(AllImages(), name) {
			t.Errorf("%s is to be loaded, and not on every node", name)
		}
	}
}
