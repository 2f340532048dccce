package config

import (
	"errors"
	"testing"
)

type panics struct{}

func (*panics) UnmarshalYAML([]byte) error { panic("nil pointer") }

func TestPanicsAreErrors(t *testing.T) {
	t.Parallel()
	if err := UnmarshalYAML([]byte("a: 1"), new(struct {
		A panics `yaml:"a"`
	})); !errors.Is(err, ErrUnreadableYAML) {
		t.Errorf("got %v", err)
	}
}

func TestUnmarshalYAML(t *testing.T) {
	t.Parallel()
	var v struct {
		A int `yaml:"a"`
	}
	if err := UnmarshalYAML([]byte("a: 5\n"), &v); err != nil || v.A != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := UnmarshalYAML([]byte("b: 5\n"), &v); err == nil {
		t.Error("an unknown field was accepted")
	}
}
