package railyard

import (
	"bytes"
	"fmt"
	"strconv"
)

// Int64 is a 64-bit number, which is a text in the API's JSON; a number is read as well.
type Int64 int64

// Uint64 is a 64-bit number without sign, likewise.
type Uint64 uint64

// MarshalJSON writes it as a text.
func (n Int64) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatInt(int64(n), 10) + `"`), nil
}

// UnmarshalJSON reads a text or a number.
func (n *Int64) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	if text == "null" {
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a 64-bit number", data)
	}
	*n = Int64(value)
	return nil
}

// MarshalJSON writes it as a text.
func (n Uint64) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strconv.FormatUint(uint64(n), 10) + `"`), nil
}

// UnmarshalJSON reads a text or a number.
func (n *Uint64) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	if text == "null" {
		return nil
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a 64-bit number without sign", data)
	}
	*n = Uint64(value)
	return nil
}

// Ptr gives a pointer to a value, for fields that know "absent" apart from "zero".
func Ptr[T any](value T) *T { return &value }
