package topology

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

// passwordBytes is the length of the random passwords that the operator makes, before they become text.
const passwordBytes = 24

func readUser(o *v1alpha1.QuorateUser) (subject, field.ErrorList) {
	u, faults := spec.ReadUser(o)
	return user{u}, faults
}

func removalOfUser(o *v1alpha1.QuorateUser) removal { return removalOf(o.Spec.Deletion) }

// user is the subject of a QuorateUser.
type user struct{ spec.User }

func (u user) identity() string { return u.Name }
func (u user) words() string    { return fmt.Sprintf("user %q", u.Name) }

// SecretOf returns the name of the Secret with a user's password: the one that the specification names, or the one that
// the operator makes.
func SecretOf(o *v1alpha1.QuorateUser) (name, key string) {
	if p := o.Spec.Password; p != nil {
		if p.Key == "" {
			return p.Name, corev1.BasicAuthPasswordKey
		}
		return p.Name, p.Key
	}
	return o.Name + "-user", corev1.BasicAuthPasswordKey
}

// compare also finds out whether the Secret has changed since its password was given to the broker. The broker shows
// nobody a password, so one that was changed there alone is not noticed.
func (u user) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, ok, err := s.inventory.User(ctx, u.Name, s.maxAge.duration())
	if err != nil || !ok {
		return false, nil, err
	}
	out := u.differences(found)
	o := as[*v1alpha1.QuorateUser](s.object)
	name, _ := SecretOf(o)
	var m metav1.PartialObjectMetadata
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = s.versions.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: name}, &m)
	if err != nil && !apierrors.IsNotFound(err) {
		return true, nil, err
	}
	if o.Status.Secret != name || versionOf(&m) != o.Status.PasswordVersion {
		out = append(out, table.Difference{Field: "password", Wanted: "that of Secret " + strconv.Quote(name), Found: "another one"})
	}
	return true, out, nil
}

// versionOf names one content of a Secret; one of the same name that was made again has another.
func versionOf(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }

func (u user) differences(found inventory.User) []table.Difference {
	tags := slices.Sorted(slices.Values(found.Tags))
	out := table.CompareText(nil, "tags", strings.Join(u.Tags, ","), strings.Join(tags, ","))
	if !found.HasPassword {
		out = append(out, table.Difference{Field: "password", Wanted: "one", Found: "none"})
	}
	wanted, has := limitsOf(u.Limits), limitsOf(found.Limits)
	for i, l := range wanted {
		if w, f := limitText(l.value), limitText(has[i].value); w != f {
			out = append(out, table.Difference{Field: "limits." + l.name, Wanted: w, Found: f})
		}
	}
	return out
}

// limit is one limit; nil is none.
type limit struct {
	name  string
	value *int64
}

// limitsOf lists the limits in a fixed order.
func limitsOf(l client.UserLimits) []limit {
	return []limit{
		{"maxConnections", l.MaxConnections},
		{"maxChannels", l.MaxChannels},
		{"maxConsumers", l.MaxConsumers},
		{"maxMessageRate", l.MaxMessageRate},
		{"maxByteRate", l.MaxByteRate},
		{"maxQueues", l.MaxQueues},
		{"maxStoredBytes", l.MaxStoredBytes},
	}
}

func limitText(n *int64) string {
	if n == nil || *n < 0 {
		return "no limit"
	}
	return strconv.FormatInt(*n, 10)
}

// apply gives the broker the Secret's password, the tags and the limits.
func (u user) apply(ctx context.Context, s *session) (created bool, err error) {
	if err := s.notOwn(ctx, u.Name, u.words()); err != nil {
		return false, err
	}
	o := as[*v1alpha1.QuorateUser](s.object)
	secret, password, err := u.password(ctx, s, o)
	if err != nil {
		return false, err
	}
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		created, err = c.ChangeUser(ctx, client.UserChange{Name: u.Name, Create: true, Tags: u.Tags, Password: password})
		return err
	})
	if err != nil {
		return created, err
	}
	o.Status.Secret, o.Status.PasswordVersion = secret.Name, versionOf(secret)
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		return c.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: u.Name, Limits: u.Limits})
	})
	if err == nil {
		s.inventory.PutUser(ctx, u.Name, inventory.User{Tags: u.Tags, HasPassword: true, Limits: u.Limits})
	}
	return created, err
}

// password reads the Secret, and makes it first if the specification leaves that to the operator.
func (u user) password(ctx context.Context, s *session, o *v1alpha1.QuorateUser) (*corev1.Secret, string, error) {
	name, key := SecretOf(o)
	var secret corev1.Secret
	err := s.secrets.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: name}, &secret)
	own := o.Spec.Password == nil
	switch {
	case apierrors.IsNotFound(err) && own:
		return u.generate(ctx, s, o, name)
	case apierrors.IsNotFound(err):
		return nil, "", &refusal{fmt.Errorf("there is no Secret %q in namespace %q: create it with the key %q, or leave out spec.password to have one made", name, o.Namespace, key)}
	case err != nil:
		return nil, "", err
	case own && !metav1.IsControlledBy(&secret, o):
		return nil, "", &refusal{fmt.Errorf("there is a Secret %q that this object did not make: name it in spec.password if its password is meant, or delete it", name)}
	case len(secret.Data[key]) == 0:
		return nil, "", &refusal{fmt.Errorf("key %q of Secret %q is missing or empty: put the password there", key, name)}
	}
	return &secret, string(secret.Data[key]), nil
}

// generate makes the Secret before the broker has the password, so that a password is never in the broker alone.
func (u user) generate(ctx context.Context, s *session, o *v1alpha1.QuorateUser, name string) (*corev1.Secret, string, error) {
	random := make([]byte, passwordBytes)
	if _, err := rand.Read(random); err != nil {
		return nil, "", fmt.Errorf("make a random password: %w", err)
	}
	password := base64.RawURLEncoding.EncodeToString(random)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": v1alpha1.FieldManager}},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{corev1.BasicAuthUsernameKey: []byte(u.Name), corev1.BasicAuthPasswordKey: []byte(password)},
	}
	if err := controllerutil.SetControllerReference(o, secret, s.kube.Scheme()); err != nil {
		return nil, "", err
	}
	return secret, password, s.kube.Create(ctx, secret)
}

// remove deletes the user with its permissions. The Secret goes with the object, whose it is.
func (u user) remove(ctx context.Context, s *session, _ removal) error {
	if err := s.notOwn(ctx, u.Name, u.words()); err != nil {
		return left(err)
	}
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.DeleteUser(ctx, u.Name)
		return gone(err)
	})
	if err == nil {
		s.inventory.DropUser(ctx, u.Name)
	}
	return err
}
