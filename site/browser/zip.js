// Zip files in plain JavaScript: what you wrote, as one file, and back again.

const TABLE = Uint32Array.from({length: 256}, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function checksum(data) {
  let sum = -1;
  for (const byte of data) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

function numbers(...pairs) { // [value, bytes], least byte first
  return Uint8Array.from(pairs.flatMap(([value, count]) =>
    Array.from({length: count}, (_, k) => (value >>> (8 * k)) & 255)));
}

/** A zip of files, path -> bytes, none compressed. */
export function zip(files) {
  const parts = [], index = [];
  let at = 0;
  const day = numbers([0, 2], [0x21, 2]); // 1 January 1980
  for (const [path, data] of files) {
    const name = new TextEncoder().encode(path), size = [data.length, 4];
    const about = [numbers([20, 2], [0x800, 2], [0, 2]), day,
      numbers([checksum(data), 4], size, size, [name.length, 2], [0, 2])];
    index.push(numbers([0x02014b50, 4], [20, 2]), ...about,
      numbers([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), name);
    const piece = [numbers([0x04034b50, 4]), ...about, name, data];
    parts.push(...piece);
    at += piece.reduce((sum, each) => sum + each.length, 0);
  }
  const size = index.reduce((sum, each) => sum + each.length, 0);
  const count = [files.size, 2];
  const end = numbers([0x06054b50, 4], [0, 4], count, count, [size, 4], [at, 4], [0, 2]);
  return new Blob([...parts, ...index, end], {type: "application/zip"});
}

/** The files of a zip, path -> bytes, also if another program packed it anew. */
export async function unzip(buffer) {
  const view = new DataView(buffer), short = at => view.getUint16(at, true);
  const long = at => view.getUint32(at, true), files = new Map();
  let end = buffer.byteLength - 22; // before it may come a comment
  while (end >= 0 && long(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error("this is no zip file, or not the whole of one");
  let at = long(end + 16);
  for (let left = short(end + 10); left; left--) {
    const name = new Uint8Array(buffer, at + 46, short(at + 28));
    const path = new TextDecoder().decode(name), from = long(at + 42);
    const start = from + 30 + short(from + 26) + short(from + 28);
    let data = new Uint8Array(buffer, start, long(at + 20));
    if (short(at + 10) === 8) {
      const plain = new Blob([data]).stream()
        .pipeThrough(new DecompressionStream("deflate-raw"));
      data = new Uint8Array(await new Response(plain).arrayBuffer());
    }
    if (checksum(data) !== long(at + 16)) throw new Error(`${path} is damaged`);
    if (!path.endsWith("/")) files.set(path, data);
    at += 46 + short(at + 28) + short(at + 30) + short(at + 32);
  }
  return files;
}
