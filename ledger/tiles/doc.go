// Package tiles keeps a ledger as files in the public format C2SP tlog-tiles,
// so that tools nobody here wrote can read and check it.
//
// An export is a directory:
//
//	checkpoint                     the signed note that commits to all below
//	tile/<L>/<N>[.p/<W>]           Merkle tree hashes, 32 bytes each
//	tile/entries/<N>[.p/<W>]       the records themselves, in bundles
//	unfinished                     only while an export is under way or was cut off
//
// L is the level of a tile: at level 0 its hashes are those of records, above
// it each hash is the root of a full tile of the level below. N counts the tiles
// of a level from 0 and is written as three-digit path elements, all but the
// last behind an x: 1234067 is x001/x234/067. A tile holds 256 hashes; the last
// of a level may be partial and then names its width W, 1 to 255.
//
// A bundle is the records whose hashes make up the level 0 tile of the same N,
// each preceded by its length as a big-endian uint16. An entry is the record's
// body, the exact bytes that the ledger holds; its RFC 6962 leaf hash is the hash
// in the tile.
package tiles
