// The declarations of @connectrpc/connect and @msgpack/msgpack name two DOM types that Node's own
// typings do not declare globally. Declaring them here keeps `skipLibCheck` off without the DOM library.
type HeadersInit = ConstructorParameters<typeof Headers>[0] & {};
type BufferSource = ArrayBufferView<ArrayBuffer> | ArrayBuffer;
