package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// count is the value of a flag that takes a whole number from 1 on. Its zero stands for a default and cannot be given.
type count int

// countFlag registers such a flag.
func countFlag(c *cobra.Command, n *int, name string, value int, usage string) {
	*n = value
	c.Flags().Var((*count)(n), name, usage)
}

// Set implements pflag.Value.
func (n *count) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return errors.New("want a whole number from 1 on")
	}
	*n = count(v)
	return nil
}

// String implements pflag.Value.
func (n *count) String() string { return strconv.Itoa(int(*n)) }

// Type is what the help calls the value.
func (*count) Type() string { return "int" }
