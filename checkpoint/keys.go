package checkpoint

import "encoding/binary"

// Kinds of keys. Integers are big-endian, so that keys sort by number, part, region and place.
const (
	keyChunk    = 'c' // number, part, region, index, piece: a piece of a chunk
	keyPart     = 'p' // number, part: the Part
	keyManifest = 'm' // number: the manifest
	keyUsed     = 'u' // number, part: the number was handed to a writer
)

const (
	incrementPrefix = 1 + 8 + 2
	regionPrefix    = incrementPrefix + 2
	chunkPrefix     = regionPrefix + 4
	chunkKeyLen     = chunkPrefix + 2
)

// increment is the share of one checkpoint that one part holds.
type increment struct {
	number uint64
	part   int
}

func (i increment) key(kind byte) []byte {
	k := make([]byte, incrementPrefix, chunkKeyLen)
	k[0] = kind
	binary.BigEndian.PutUint64(k[1:], i.number)
	binary.BigEndian.PutUint16(k[9:], uint16(i.part))
	return k
}

// next is the least increment after i in the order of keys.
func (i increment) next() (increment, bool) {
	if i.part < maxIndex {
		return increment{i.number, i.part + 1}, true
	}
	return increment{i.number + 1, 0}, i.number+1 != 0
}

func parseIncrement(key []byte) (increment, bool) {
	if len(key) < incrementPrefix {
		return increment{}, false
	}
	return increment{binary.BigEndian.Uint64(key[1:]), int(binary.BigEndian.Uint16(key[9:]))}, true
}

func (i increment) regionKey(region int) []byte {
	return binary.BigEndian.AppendUint16(i.key(keyChunk), uint16(region))
}

// chunkKey is the key of a chunk without the number of the piece.
func (i increment) chunkKey(region int, index uint32) []byte {
	return binary.BigEndian.AppendUint32(i.regionKey(region), index)
}

func manifestKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyManifest}, number)
}
