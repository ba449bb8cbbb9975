// Command image packs the static binaries into a container image without a
// daemon, a base image or a network: the file it writes is an OCI image layout that
// `docker load`, `ctr images import`, `kind load image-archive` and skopeo read.
//
// The image holds two files, /quorate and /quoratectl, and runs the first as user 65532 with a
// read-only root in mind. With -operator it holds and runs /quorate-operator. Binaries for several processors, with commas
// between, give one image for all of them. Equal binaries and names give equal bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// main exits with 1 on any error.
func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run packs the image into the file of -out. It prints the name and digest that a registry will
// give the image.
func run(args []string) error {
	var c Config
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	list := func(to *[]string) func(string) error {
		return func(names string) error {
			*to = append(*to, strings.Split(names, ",")...)
			return nil
		}
	}
	flags.Func("binary", "static Linux binary that becomes /quorate; with commas between, one for each processor", list(&c.Binary))
	flags.Func("ctl", "static Linux binary that becomes /quoratectl; the same", list(&c.Ctl))
	flags.Func("operator", "static Linux binary that becomes /quorate-operator, alone in its image; the same", list(&c.Operator))
	flags.StringVar(&c.Name, "name", "", "name and tag, for example quorate/quorate:dev")
	flags.StringVar(&c.Version, "version", "", "version label of the image")
	out := flags.String("out", "", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return fmt.Errorf("flag -out is missing: name the file to write")
	}
	if err := c.Validate(); err != nil {
		return err
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	digest, err := Write(f, c)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", *out, err)
	}
	fmt.Printf("%s: %s %s\n", *out, c.FullName(), digest)
	return nil
}
