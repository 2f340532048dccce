// Package languageworker runs function apps in the languages of Azure Functions, Python and Node.js, as the Functions
// host does: with worker processes, to which it speaks the language-worker protocol over gRPC. Package functions has
// the triggers, bindings, retries and host.json, and calls this package by its interface LanguageWorkers:
//
//	functions.Load(ctx, functions.Config{Dir: dir, Workers: languageworker.Runtime{}})
//
// # What a worker must do
//
// A worker is a program that this host starts in the app's folder, with the app's settings in its environment and the
// arguments
//
//	--functions-uri http://127.0.0.1:PORT --functions-worker-id ID --functions-request-id ID
//	--functions-grpc-max-message-length BYTES --host 127.0.0.1 --port PORT --workerId ID --requestId ID
//	--grpcMaxMessageLength BYTES
//
// the last five of which are the older names of the same. It calls /AzureFunctionsRpcMessages.FunctionRpc/EventStream,
// a stream of the message StreamingMessage in both directions, and then, in this order:
//
//   - sends StartStream with its worker ID;
//   - responds to WorkerInitRequest with WorkerInitResponse, with its capabilities and a StatusResult; every response
//     has the request_id of its request;
//   - responds to FunctionsMetadataRequest with FunctionMetadataResponse: an RpcFunctionMetadata for each function, of
//     which this host reads name, function_id, raw_bindings (each the JSON of one binding of a function.json),
//     retry_options, directory, script_file and entry_point; or use_default_metadata_indexing, if functions are folders
//     with a function.json;
//   - responds to each FunctionLoadRequest with FunctionLoadResponse (or to a FunctionLoadRequestCollection, with the
//     capability SupportsLoadResponseCollection);
//   - responds to each InvocationRequest, of which several run at once, with InvocationResponse. RpcLog has the
//     invocation_id of the invocation it belongs to, and log_category User for what the function's code has logged.
//
// It may get InvocationCancel for an invocation whose answer is no longer awaited, WorkerStatusRequest at any time, and
// WorkerTerminate before SIGTERM, each with the capability for it. It ends when the stream does. No other message is
// sent: the stream of the worker for Java breaks at one that it does not handle. WorkerWarmupRequest is for the workers
// of Azure's placeholders alone.
//
// Capabilities that this host looks at: HttpUri (the worker has an HTTP server at that address, to which requests of
// HTTP triggers are passed with the header x-ms-invocation-id), RpcHttpBodyOnly, RawHttpBodyBytes,
// UseNullableValueDictionaryForHttp, TypedDataCollection, SupportsLoadResponseCollection, WorkerStatus,
// HandlesInvocationCancelMessage and HandlesWorkerTerminateMessage.
//
// The programs of the workers are in folders of this package and embedded in the binary. They are written to a
// temporary folder, with functionrpc.proto beside them, from which they make the types of the messages, and
// functionrpc.binpb, its FileDescriptorProto.
//
// # Where to start
//
// app.go has the processes of one app, worker.go one of them, from its start to its end; value.go converts values.
package languageworker
