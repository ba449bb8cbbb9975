package archive

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const s3Scheme = "s3://"

// S3Config is how a bucket is reached. Credentials come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN, from the file of the AWS command line, or from the machine's role.
type S3Config struct {
	// Endpoint is the URL of the service; empty: https://s3.amazonaws.com.
	Endpoint string
	Region   string // empty: found out by the bucket
	// Authorities are those that the service's certificate must go back to; nil: those that the system trusts.
	Authorities *x509.CertPool
}

// defaultEndpoint is Amazon's own.
const defaultEndpoint = "https://s3.amazonaws.com"

// bucket is a Store of objects under a prefix in a bucket.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// openS3 connects to nothing yet.
func openS3(location string, c S3Config) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(location, s3Scheme), "/")
	if name == "" {
		return nil, fmt.Errorf("archive: %q names no bucket: want %sBUCKET/PREFIX", location, s3Scheme)
	}
	if c.Endpoint == "" {
		c.Endpoint = defaultEndpoint
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("archive: endpoint %q is no URL such as %s", c.Endpoint, defaultEndpoint)
	}
	transport, err := c.transport(u)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(u.Host, &minio.Options{
		Secure: u.Scheme == "https", Region: c.Region, Transport: transport,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: http.DefaultClient},
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &bucket{client: client, name: name, prefix: strings.Trim(prefix, "/")}, nil
}

// transport is that of the client, with the authorities in place of the system's if there are any.
func (c S3Config) transport(to *url.URL) (*http.Transport, error) {
	secure := to.Scheme == "https"
	if c.Authorities != nil && !secure {
		return nil, fmt.Errorf("archive: endpoint %q has no certificate, but authorities for one are given: want https", c.Endpoint)
	}
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if c.Authorities != nil {
		t.TLSClientConfig.RootCAs = c.Authorities
	}
	return t, nil
}

// fault is the error of a request; key is the object that it was about, "" for the bucket.
func (b *bucket) fault(key string, err error) error {
	at := "bucket " + b.name
	if key != "" {
		at = fmt.Sprintf("object %s in %s", key, at)
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return fmt.Errorf("archive: %s: %w: give the authority of the service's certificate", at, err)
	}
	return fmt.Errorf("archive: %s: %w", at, err)
}

func (b *bucket) Put(ctx context.Context, name string, content []byte) error {
	key := path.Join(b.prefix, name)
	_, err := b.client.PutObject(ctx, b.name, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
		DisableMultipart: true, SendContentMd5: true, // one request that the service checks
	})
	if err != nil {
		return b.fault(key, err)
	}
	return nil
}

func (b *bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	key := path.Join(b.prefix, name)
	o, err := b.client.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err == nil {
		if _, err = o.Stat(); err == nil { // the first request
			return o, nil
		}
		_ = o.Close() // nothing was read
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, fmt.Errorf("%w: %s in bucket %s", ErrNoObject, key, b.name)
	}
	return nil, b.fault(key, err)
}

// below returns what begins the keys of all objects in the prefix.
func (b *bucket) below() string {
	if b.prefix == "" {
		return ""
	}
	return b.prefix + "/"
}

func (b *bucket) list(ctx context.Context) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the listing if the caller has enough
		defer cancel()
		for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.below(), Recursive: true}) {
			if o.Err != nil {
				yield(listed{}, b.fault("", o.Err))
				return
			}
			if !yield(listed{strings.TrimPrefix(o.Key, b.below()), o.LastModified}, nil) {
				return
			}
		}
	}
}

func (b *bucket) remove(ctx context.Context, name string) error {
	key := path.Join(b.prefix, name)
	if err := b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}); err != nil {
		return b.fault(key, err)
	}
	return nil
}

func (b *bucket) removed() error { return nil }

func (b *bucket) Close() error { return nil }

// Abandon leaves the objects: without a manifest they are no backup.
func (b *bucket) Abandon() error { return nil }
